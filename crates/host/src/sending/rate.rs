//! Delivery-rate samples: draft-ietf-ccwg-bbr §4.1, Linux `tcp_rate.c`.

use weftway_path::{BitRate, Bytes, Instant, Span};

use super::SentPacket;

/// Deliveries of one path.
#[derive(Clone, Debug, Default)]
pub struct RateSampler {
    delivered: Bytes,
    delivered_at: Instant,
    flight_start: Instant,
    /// Samples are limited by the application until so much is delivered; zero: they are not.
    app_limited_until: Bytes,
}

/// A sample in the making: of the newest packet that one acknowledgement covers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Time at which that packet was sent; `None` before the first.
    pub newest_sent: Option<Instant>,
    /// The path's total when it was sent.
    pub prior_delivered: Bytes,
    prior_at: Instant,
    send_elapsed: Span,
    /// True if it was sent while the application limited the sender.
    pub app_limited: bool,
}

impl RateSampler {
    /// Payload delivered so far.
    #[inline]
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// Notes in `packet` what was delivered when it is sent now; `idle` if nothing is in flight.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, idle: bool, packet: &mut SentPacket) {
        if idle {
            self.flight_start = now;
            self.delivered_at = now;
        }
        packet.delivered = self.delivered;
        packet.delivered_at = self.delivered_at;
        packet.flight_start = self.flight_start;
        packet.app_limited = self.is_app_limited();
    }

    /// Returns true if the application limits the sender: what is sent now yields no sample of what the path can bring.
    #[inline]
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > Bytes::ZERO
    }

    /// `packet` is delivered.
    #[inline]
    pub fn on_delivered(&mut self, now: Instant, packet: &SentPacket, sample: &mut Sample) {
        self.on_delivered_together(now, Bytes::new(u64::from(packet.bytes)), packet, sample);
    }

    /// Packets with so many bytes are delivered, of which `packet` was sent last.
    #[inline]
    pub fn on_delivered_together(&mut self, now: Instant, bytes: Bytes, packet: &SentPacket, sample: &mut Sample) {
        self.delivered = self.delivered.plus(bytes);
        self.delivered_at = now;
        if sample.newest_sent.is_none_or(|newest| packet.sent_at >= newest) {
            self.flight_start = packet.sent_at;
            *sample = Sample {
                newest_sent: Some(packet.sent_at),
                prior_delivered: packet.delivered,
                prior_at: packet.delivered_at,
                send_elapsed: packet.sent_at.since(packet.flight_start),
                app_limited: packet.app_limited,
            };
        }
    }

    /// The application has nothing more to send while `in_flight` is under way.
    #[inline]
    pub fn on_app_limited(&mut self, in_flight: Bytes) {
        self.app_limited_until = (self.delivered + in_flight).max(Bytes::new(1));
    }

    /// The rate of a finished sample and its interval. No rate comes of an interval below
    /// `min_rtt`: it would overestimate (`tcp_rate_gen`).
    #[inline]
    pub fn finish(&mut self, now: Instant, min_rtt: Span, sample: &Sample) -> (Option<BitRate>, Span) {
        if self.app_limited_until > Bytes::ZERO && self.delivered > self.app_limited_until {
            self.app_limited_until = Bytes::ZERO;
        }
        if sample.newest_sent.is_none() {
            return (None, Span::ZERO);
        }
        let interval = sample.send_elapsed.max(now.since(sample.prior_at));
        if interval.is_zero() || interval < min_rtt {
            return (None, interval);
        }
        (Some(BitRate::of(self.delivered - sample.prior_delivered, interval)), interval)
    }
}
