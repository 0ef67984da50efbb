//! Where one path settles under each controller: how much of it is used, and how long its queue is.

mod setup;

use setup::{Run, bulk, lossy, path, run, stacks};
use weftway_path::Instant;
use weftway_sim::Note;
use weftway_sim::config::Transport;

/// Of the path, both ways.
const RTT_MS: f64 = 40.0;
/// Slow start, DRAIN and the first probes are over by then.
const SETTLED: Instant = Instant::from_millis(3000);

struct Steady {
    /// Payload that arrived, as a share of what the link can bring.
    used: f64,
    /// How much longer than the path's own the round trip is, in ms.
    queue_ms: f64,
}

impl Steady {
    /// `mbps` of payload are what the link can bring.
    fn of(run: &Run, mbps: f64) -> Self {
        let late = || run.notes.iter().filter(|(at, _)| *at >= SETTLED);
        let (mut last, mut sum, mut srtt) = (SETTLED, 0.0, Vec::new());
        for (at, note) in late() {
            match note {
                Note::Arrived { bytes, .. } => (last, sum) = (*at, sum + f64::from(*bytes)),
                Note::Acked { srtt_us, .. } => srtt.push(*srtt_us as f64 / 1e3),
                _ => {}
            }
        }
        let mean = srtt.iter().sum::<f64>() / srtt.len() as f64;
        Self { used: sum * 8.0 / last.since(SETTLED).as_secs_f64() / (mbps * 1e6), queue_ms: mean - RTT_MS }
    }
}

/// A path of `mbps` and 40 ms, with a queue of a hundred packets and random loss; a transfer that takes 20 s at that
/// rate.
fn settle(transport: &Transport, cc: &str, mbps: u64, loss: f64) -> Steady {
    let only = path("only", mbps * 1000, 20);
    let only = if loss > 0.0 { lossy(only, loss) } else { only };
    let payload = transport.mss.get() as f64 / transport.packet.get() as f64;
    let run = run(&bulk(transport, vec![only], mbps * 2_500_000), "min-rtt", cc);
    Steady::of(&run, mbps as f64 * payload)
}

fn each(cc: &str, mbps: u64, loss: f64, judge: impl Fn(&Steady) -> bool) {
    for (stack, transport) in stacks() {
        let steady = settle(&transport, cc, mbps, loss);
        let Steady { used, queue_ms } = steady;
        let text = format!("{cc} over {stack}, {mbps} Mbit/s, loss {loss}: {used:.3} used, queue {queue_ms:.1} ms");
        println!("{text}");
        assert!(judge(&steady), "{text}");
    }
}

/// Alone each of them is Reno or close to it. The queue of 100 packets, 120 ms, is more than the 35
/// packets of the path, so that half the window still fills it; it is on average between half full
/// and full. D-LIA gives up less, and keeps more.
#[test]
fn coupled_controllers_alone_fill_the_path_and_the_queue() {
    for cc in ["newreno", "lia", "olia", "balia", "dlia"] {
        each(cc, 10, 0.0, |steady| steady.used > 0.98 && (60.0..120.0).contains(&steady.queue_ms));
    }
    for (_, transport) in stacks() {
        let queue = |cc| settle(&transport, cc, 10, 0.0).queue_ms;
        assert!(queue("dlia") > queue("lia"));
    }
}

/// Ten packets queued take 12 ms, one or two more while the window moves.
#[test]
fn wvegas_fills_the_path_and_queues_ten_packets() {
    each("wvegas", 10, 0.0, |steady| steady.used > 0.9 && (8.0..18.0).contains(&steady.queue_ms));
}

/// Draining every queue that has doubled empties a path that has none yet.
#[test]
fn draining_any_queue_leaves_the_path_half_empty() {
    each("wvegas:drain=kernel", 10, 0.0, |steady| steady.used < 0.8 && steady.queue_ms < 10.0);
}

/// Paced 1 % below the estimate; a probe each 1.6 s queues up to a quarter of the 40 ms.
#[test]
fn bbr3_fills_a_clean_path_and_leaves_no_queue() {
    each("bbr3", 10, 0.0, |steady| steady.used > 0.9 && steady.queue_ms < 5.0);
}

/// One loss in a hundred. A path of 35 packets loses none of them in 7 rounds of 10 and more than 2 % in the
/// others, so that `bw_lo` falls until the next probe; still more is used than Reno's sqrt(3/(2p)) = 12
/// packets of 35.
#[test]
fn bbr3_holds_out_against_random_loss() {
    each("bbr3", 10, 0.01, |steady| steady.used > 0.5);
    each("newreno", 10, 0.01, |steady| steady.used < 0.4);
}

/// Of 345 packets 2 % are 6, more than which are lost in one flight of fifteen: whoever waits for that is
/// disturbed less often, and a probe that it disturbs leaves 85 % of what was in flight. Reno's 12 packets
/// are 3.5 %.
#[test]
fn waiting_for_two_percent_helps_on_a_fast_path() {
    let (_, transport) = &stacks()[0];
    let used = |cc| settle(transport, cc, 100, 0.01).used;
    let [any, many, reno] = ["bbr3", "bbr3:lossy=many", "newreno"].map(used);
    println!("100 Mbit/s, loss 0.01: any {any:.3}, many {many:.3}, newreno {reno:.3} used");
    assert!(many > any && many > 0.6 && any > 0.3 && reno < 0.1);
}
