//! The yardstick: the least that still simulates packets. Two bulk flows, one to a path; links whose
//! departures are computed when a packet comes, with a drop-tail queue; packets with a number, a
//! size and a time; an acknowledgement for every second packet; a window that opens by one packet
//! a round trip and halves when a number is missing. No scheduler, no shared data, no loss
//! recovery, no pacing, no timers, no measurements beyond a smoothed round-trip time.

use std::collections::VecDeque;

#[derive(Clone, Copy)]
struct Packet {
    arrives: u64,
    sent_at: u64,
    number: u64,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct Ack {
    arrives: u64,
    echo: u64,
    count: u64,
    missing: u64,
}

/// A direction of a path.
struct Link {
    rate_mbps: u64,
    delay_ns: u64,
    limit: usize,
    free_at: u64,
    waiting: VecDeque<u64>,
}

impl Link {
    /// Time at which a packet arrives that comes now, unless the queue is full.
    fn carry(&mut self, now: u64, bytes: u64) -> Option<u64> {
        while self.waiting.front().is_some_and(|&departs| departs <= now) {
            self.waiting.pop_front();
        }
        if self.waiting.len() >= self.limit {
            return None;
        }
        self.free_at = self.free_at.max(now) + (bytes * 8_000).div_ceil(self.rate_mbps);
        self.waiting.push_back(self.free_at);
        Some(self.free_at + self.delay_ns)
    }
}

/// A flow on its path.
struct Flow {
    data: Link,
    acks: Link,
    flying: VecDeque<Packet>,
    returning: VecDeque<Ack>,
    window: u64,
    credit: u64,
    in_flight: u64,
    next: u64,
    expected: u64,
    unacked: u64,
    missing: u64,
    delivered: u64,
    bytes: u64,
    srtt: u64,
    calm_until: u64,
}

impl Flow {
    fn new(mbps: u64, ms: u64) -> Self {
        let limit = ((mbps * 1_000 * 2 * ms / 8 / 1500).max(20)) as usize;
        let link = || Link { rate_mbps: mbps, delay_ns: ms * 1_000_000, limit, free_at: 0, waiting: VecDeque::new() };
        Self {
            data: link(),
            acks: link(),
            flying: VecDeque::new(),
            returning: VecDeque::new(),
            window: 10,
            credit: 0,
            in_flight: 0,
            next: 0,
            expected: 0,
            unacked: 0,
            missing: 0,
            delivered: 0,
            bytes: 0,
            srtt: 0,
            calm_until: 0,
        }
    }

    fn send(&mut self, now: u64) {
        while self.in_flight < self.window {
            if let Some(arrives) = self.data.carry(now, 1500) {
                self.flying.push_back(Packet { arrives, sent_at: now, number: self.next, bytes: 1500 });
                self.in_flight += 1;
                self.next += 1;
            } else {
                self.next += 1;
                return;
            }
        }
    }

    fn arrive(&mut self) {
        let Some(packet) = self.flying.pop_front() else { return };
        self.missing += packet.number - self.expected;
        self.expected = packet.number + 1;
        self.delivered += 1;
        self.bytes += packet.bytes;
        self.unacked += 1;
        if self.unacked >= 2 || self.missing > 0 {
            let (count, missing) = (self.unacked, self.missing);
            (self.unacked, self.missing) = (0, 0);
            if let Some(arrives) = self.acks.carry(packet.arrives, 72) {
                self.returning.push_back(Ack { arrives, echo: packet.sent_at, count, missing });
            }
        }
    }

    fn acknowledge(&mut self) {
        let Some(ack) = self.returning.pop_front() else { return };
        let now = ack.arrives;
        let rtt = now - ack.echo;
        self.srtt = if self.srtt == 0 { rtt } else { (7 * self.srtt + rtt) / 8 };
        self.in_flight = self.in_flight.saturating_sub(ack.count);
        self.credit += ack.count;
        if ack.missing > 0 && now > self.calm_until {
            self.window = (self.window / 2).max(2);
            self.calm_until = now + self.srtt;
        } else if self.credit >= self.window {
            self.credit -= self.window;
            self.window += 1;
        }
        self.send(now);
    }
}

/// Delivers `packets` over two paths of so many (Mbit/s, ms); a sum that depends on all of it.
pub fn run(packets: u64, paths: [(u64, u64); 2]) -> u64 {
    let mut flows = paths.map(|(mbps, ms)| Flow::new(mbps, ms));
    flows.iter_mut().for_each(|flow| flow.send(0));
    while flows[0].delivered + flows[1].delivered < packets {
        let mut earliest = (u64::MAX, 0);
        for (at, flow) in flows.iter().enumerate() {
            let data = flow.flying.front().map_or(u64::MAX, |packet| packet.arrives);
            let acks = flow.returning.front().map_or(u64::MAX, |ack| ack.arrives);
            earliest = earliest.min((data, 2 * at)).min((acks, 2 * at + 1));
        }
        let flow = &mut flows[earliest.1 / 2];
        if earliest.1 % 2 == 0 { flow.arrive() } else { flow.acknowledge() }
    }
    flows.iter().map(|flow| flow.bytes + flow.srtt).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_flows_move() {
        let mut flows = [(10, 10), (5, 5)].map(|(mbps, ms)| Flow::new(mbps, ms));
        flows.iter_mut().for_each(|flow| flow.send(0));
        assert!(flows.iter().all(|flow| flow.in_flight == 10));
        assert!(run(10_000, [(10, 10), (5, 5)]) > 10_000 * 1500);
    }
}
