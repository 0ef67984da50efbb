//! A call goes both ways over the same links.

use weftway_link::{LinkConfig, Loss};
use weftway_path::{BitRate, Bytes, Role, Span};
use weftway_scenario::config::{Direction, PathConfig, SimConfig, TransportConfig, Workload};
use weftway_sim::measure::{Row, Singles};
use weftway_sim::run::Job;

fn link(kbps: u64) -> LinkConfig {
    let rate = BitRate::from_bps(kbps * 1000).into();
    LinkConfig { rate, delay: Span::from_millis(10), ..LinkConfig::default() }
}

/// A call of so many kbit/s forth and back, 25 frames a second, over a path with these links.
fn row(forth: u64, back: u64, (data, acks): (LinkConfig, LinkConfig), direction: Direction) -> Row {
    let path = PathConfig { name: "a".to_owned(), role: Role::Active, data, acks, via: None, presence: Vec::new() };
    let rate = |kbps: u64| BitRate::from_bps(kbps * 1000);
    let mut config = SimConfig::new(TransportConfig::mptcp_linux_v1(), vec![path], Bytes::ZERO);
    config.transport.direction = direction;
    config.workload = Workload::Call {
        rate: rate(forth),
        back: rate(back),
        period: Span::from_millis(40),
        deadline: Span::from_millis(150),
        span: Span::from_secs(4),
    };
    let job = Job { config: &config, cc: "cubic", seed: 1, timing: None };
    job.row(&job.run_named("linux-v1").unwrap(), &Singles::default())
}

fn numbers<const N: usize>(row: &Row, columns: [&str; N]) -> [f64; N] {
    columns.map(|column| row[column].as_f64().unwrap_or_else(|| panic!("{column}: {}", row[column])))
}

/// 200 kbit/s are 1000 B a frame: one packet of 1072 B, 0.8576 ms at 10 Mbit/s after 10 ms. An acknowledgement of the
/// other direction (72 B, 0.0576 ms) may stand before it.
#[test]
fn both_directions_of_a_quiet_call_are_as_fast_as_the_links() {
    for direction in [Direction::Upload, Direction::Download] {
        let row = row(200, 200, (link(10_000), link(10_000)), direction);
        assert_eq!(row["verdict"], "finished");
        for half in numbers(&row, ["message_p50_ms", "back_p50_ms"]) {
            assert!((10.857..10.974).contains(&half), "{direction:?}: {half}");
        }
        assert_eq!(numbers(&row, ["deadline_miss_rate", "back_miss_rate", "call_miss_rate"]), [0.0; 3]);
        assert_eq!(row["delivered_bytes"], 100_000);
    }
}

/// 1 Mbit/s back over a link of 0.5 Mbit/s: after a second of call, a frame is a second late. Forth there is room for
/// all, and its acknowledgements wait behind those frames: the window of 10 packets still holds a frame of 1000 B.
#[test]
fn the_other_direction_has_the_links_turned_around() {
    let row = row(200, 1000, (link(10_000), link(500)), Direction::Download);
    let [forth, back, call] = numbers(&row, ["message_p50_ms", "back_p50_ms", "call_p99_ms"]);
    assert!(forth < 20.0 && back > 1000.0 && call > back, "{forth} {back} {call}");
    let [forth, back, call] = numbers(&row, ["deadline_miss_rate", "back_miss_rate", "call_miss_rate"]);
    assert!(forth < 0.1 && back > 0.8 && call == back, "{forth} {back} {call}");
}

/// What is lost on the way back is lost to the frames that go there; the acknowledgements of those that come forth are
/// cumulative.
#[test]
fn losses_are_those_of_the_direction() {
    let lossy = LinkConfig { loss: Loss::Bernoulli(0.1), ..link(10_000) };
    let row = row(200, 200, (link(10_000), lossy), Direction::Upload);
    let [forth, back] = numbers(&row, ["message_p95_ms", "back_p95_ms"]);
    assert!(forth < 15.0 && back > 30.0, "{forth} {back}");
}
