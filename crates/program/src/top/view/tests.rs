use serde_json::json;

use super::*;

/// A proxy that has a link and a connection.
pub fn snapshot() -> Value {
    let link = json!({
        "path": "wlan0", "up": true, "srtt_ms": 12.5, "min_rtt_ms": 10.0, "packets": 200, "lost": 1, "mbps": 0.0,
        "minute": [0.0], "policy": {"tier": "secondary", "open": false, "left": 7_000_000},
    });
    let shares = [("wlan0", 100, 1_499_900), ("wwan0", 0, 500_000)];
    let shares = shares.map(|(path, sent, received)| json!({"path": path, "sent": sent, "received": received}));
    json!({
        "program": "proxy", "pid": 77, "state": "relaying", "listening": null, "bytes": 0, "had": 0, "done": 0,
        "ports": ["127.0.0.1:1080"], "clients": 0, "flows": 3,
        "by_class": {"realtime": 1, "interactive": 0, "bulk": 2},
        "busiest": [{"target": "example.org:443", "class": "bulk", "up": 10, "down": 2_000_000, "paths": shares}],
        "refusals": {"not_allowed": 4}, "drops": {"too_long": 2, "malformed": 1}, "by_client": [], "notes": [],
        "dropped_lines": 0, "paths": [link],
    })
}

fn drawn(snapshot: &Value) -> Vec<String> {
    let lines = view(snapshot, MOST_FLOWS, 120).into_iter().map(|line| line.text);
    lines.filter(|line| !line.is_empty()).collect()
}

fn with(name: &str, value: Value) -> Vec<String> {
    let mut snapshot = snapshot();
    snapshot[name] = value;
    drawn(&snapshot)
}

#[test]
fn the_view_has_links_and_connections() {
    let shown = [
        "weft proxy at 127.0.0.1:1080 (77): relaying, 3 connections (1 realtime, 2 bulk)",
        "link   Mbit/s  last minute  round trip   queue   lost       tier  cap left",
        "wlan0     0.0            ▁     12.5 ms  2.5 ms  0.5 %  secondary    7.0 MB  closed",
        "connection       class  sent  received  links",
        "example.org:443   bulk  10 B    2.0 MB  wlan0 75 %, wwan0 25 %",
        "refused: not_allowed 4",
        "dropped: malformed 1, too_long 2",
    ];
    assert_eq!(drawn(&snapshot()), shown);
}

#[test]
fn a_pipe_has_a_line_for_each_way() {
    let way = |datagrams: u64, p50: Option<f64>| {
        let second = json!({"datagrams": datagrams, "late": 2, "lost": 1, "p50_ms": p50, "p95_ms": p50, "p99_ms": p50});
        json!({"total": {}, "second": second})
    };
    let pipe = json!({
        "listen": "127.0.0.1:9000", "deliver": "media.example:9001", "overhead": 1.25,
        "up": way(4321, Some(20.04)), "down": way(0, None), "open": true, "rate": {"now_bps": 8.04e6, "next_bps": 5e6},
        "links": [
            {"path": "wlan0", "share": 0.751, "health": "good"}, {"path": "wwan0", "share": 0.249, "health": "late"},
        ],
    });
    let shown = with("pipes", json!([pipe]));
    let lines = [
        "pipe                                        datagrams/s  late  lost     50 %     95 %     99 %  overhead",
        "127.0.0.1:9000 to media.example:9001    up         4321     2     1  20.0 ms  20.0 ms  20.0 ms      1.25",
        "                                      down            0     2     1        –        –        –",
        "127.0.0.1:9000 has room for 8.0 Mbit/s now, 5.0 in the next second: wlan0 75 %, wwan0 25 % (late)",
    ];
    assert!(shown.windows(4).any(|found| found == lines), "{shown:#?}");
}

#[test]
fn a_tunnel_to_which_packets_do_not_come_is_seen_with_its_connections() {
    for state in ["bypassed", "blocked"] {
        let mut snapshot = snapshot();
        snapshot["state"] = state.into();
        snapshot["scheduler"] = "min-rtt".into();
        assert!(drawn(&snapshot)[0].contains(&format!("{state}, scheduler min-rtt, 3 connections")));
    }
}

#[test]
fn a_transfer_tells_how_far_it_is() {
    let sends =
        json!({"program": "send", "pid": 5, "state": "transferring", "bytes": 4_000_000, "had": 1, "done": 1_999_999});
    assert_eq!(drawn(&sends), ["weft send (5): transferring, 2.0 MB of 4.0 MB"]);
}

#[test]
fn the_view_says_who_holds_memory_without_reading() {
    let most = json!([{"target": "example.org:443", "bytes": 2_000_000}, {"target": "udp:", "bytes": 1_500_000}]);
    let unread = json!({
        "memory": 536_870_912, "promised": 90_000_000, "connections": 2, "bytes": 3_500_000, "most": most
    });
    let told = "not read: 2 connections with 3.5 MB (example.org:443 2.0 MB, datagrams (UDP) 1.5 MB), 90.0 MB of 536.9 MB of \
                memory are promised";
    assert!(with("unread", unread).join(" ").contains(told));
    let everybody_reads = json!({"memory": 1, "promised": 0, "connections": 0, "bytes": 0, "most": []});
    assert!(!with("unread", everybody_reads).join(" ").contains("not read"));
}

#[test]
fn the_view_says_where_a_packet_went_and_why() {
    let last = json!({"path": "wlan0", "scheduler_says": "wlan0 has the smallest srtt, 12 ms"});
    assert_eq!(with("last_packet", last)[3], "a packet went over wlan0: wlan0 has the smallest srtt, 12 ms");
    let long = json!({"path": "wlan0", "scheduler_says": "wlan0 at 10.0.0.1 has 8.923226 ms, 2.25; wwan0 56 ms"});
    let says = "a packet went over wlan0: wlan0 at 10.0.0.1 has 8.9 ms, 2.2; wwan0 56 ms";
    assert_eq!(with("last_packet", long)[3], says);
    let silent = json!({"path": "wlan0", "scheduler_says": null});
    assert_eq!(with("last_packet", silent)[3], "a packet went over wlan0: this scheduler gives no reasons");
}

#[test]
fn losses_that_no_queue_makes_are_named_with_what_would_help() {
    let shown = view(&json!({"cc": "cubic", "losses": [{"path": "lte1", "percent": 1.0}]}), 0, 120);
    let told = "lte1 loses 1.0 % without a queue, which holds cubic down: try --cc bdp or bbr1 at this end";
    assert!(shown.iter().any(|line| line.text == told), "{shown:?}");
}

#[test]
fn clients_notes_and_output_that_nobody_takes_are_shown() {
    let paths = json!([{"up": true, "srtt_ms": 12.4}, {"up": true, "srtt_ms": null}, {"up": false, "srtt_ms": 9.0}]);
    let client = json!({"name": null, "flows": 2, "up": 10, "down": 2000, "paths": paths});
    let shown = with("by_client", json!([client]));
    assert_eq!(shown[3], "client          links  connections  from it   to it  round trips");
    assert_eq!(shown[4], "without a name      2            2     10 B  2.0 kB        12 ms");
    assert_eq!(with("notes", json!(["one\x1b"])).last().unwrap(), "one\\x1b");
    let nobody = "nobody reads what it prints: 2 lines dropped";
    assert_eq!(with("dropped_lines", json!(2)).last().unwrap(), nobody);
}

#[test]
fn the_last_minute_of_all_links_has_one_scale() {
    assert_eq!(sparklines(&[]), [""; 0]);
    assert_eq!(sparklines(&[vec![], vec![0.0, 0.0]]), ["", "▁"]);
    assert_eq!(sparklines(&[vec![0.0, 0.0, 4.0, 4.0, 8.0, 8.0]]), ["▁▅█"]);
    assert_eq!(sparklines(&[vec![9.0, 6.0, 6.0], vec![3.0]]), ["█▆", "▃"], "the oldest alone");
    assert_eq!(sparklines(&[vec![1.0; 60]])[0].chars().count(), 30);
}

#[test]
fn on_a_narrow_terminal_the_last_minute_gives_way() {
    // What is told of a link is legible in 80 columns; of the minute the latest part is shown, which is its highest.
    let mut snapshot = snapshot();
    let link = &mut snapshot["paths"][0];
    link["path"] = "10.0.2.1".into();
    link["mbps"] = 57.3.into();
    link["minute"] = [vec![1.0; 58], vec![57.0; 2]].concat().into();
    link["policy"]["left"] = 8_200_000_000_u64.into();
    for columns in [80, 120] {
        let lines = view(&snapshot, MOST_FLOWS, columns);
        let line = &lines.iter().find(|line| line.text.starts_with("10.0.2.1")).unwrap().text;
        for word in ["57.3", "█", "secondary", "8.2 GB", "closed"] {
            assert!(line.contains(word), "{line}");
        }
        assert_eq!(line.contains(&"▁".repeat(20)), columns == 120, "{line}");
    }
}
