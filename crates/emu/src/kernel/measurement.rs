//! Measurement of a run of the kernel.
//!
//! What the kernel does not tell is left open: what its receiver holds, what a capture would tag, decisions, which path
//! sent another's data again, and whose packets a shared link lost.

use weftway_link::Counts as LinkCounts;
use weftway_scenario::config::{Direction, SimConfig};
use weftway_scenario::measurement::{Counts, Messages, PathFigures, RealTime, Singles};
use weftway_scenario::{Measurement, Verdict};

use crate::kernel::counters::Counters;
use crate::kernel::{Measured, Outcome};

/// Reductions of a window that TCP took back.
const UNDONE: [&str; 4] = ["TcpExt.TCPFullUndo", "TcpExt.TCPPartialUndo", "TcpExt.TCPLossUndo", "TcpExt.TCPDSACKUndo"];

impl Measured {
    /// The figures of a run of `config`.
    pub fn measurement(&self, config: &SimConfig) -> Measurement {
        let Self { outcome, report, .. } = self;
        let links = data_links(config, &report.links);
        let delays: Vec<_> = outcome.message_delays.iter().flatten().copied().collect();
        let outstanding = (outcome.message_delays.len() - delays.len()) as u64;
        Measurement {
            verdict: if outcome.finished { Verdict::Finished } else { Verdict::TimeLimit },
            elapsed: outcome.elapsed,
            delivered: outcome.delivered,
            singles: Singles::default(),
            counts: counts(outcome, &links),
            reordering: None,
            fallback: None,
            chosen: None,
            messages: Messages { delays, outstanding, ..Messages::default() },
            back: None,
            paths: paths(outcome, &links),
            real_time: Some(RealTime {
                late: !self.is_in_time(),
                mean: report.lateness.mean(),
                over_1ms: report.lateness.late(),
            }),
            became_tcp: Some(outcome.fallback),
            rival_delivered: None,
        }
    }
}

/// The counts of each path's link in the direction of the data.
fn data_links(config: &SimConfig, links: &[LinkCounts]) -> Vec<LinkCounts> {
    let away = usize::from(config.transport.direction == Direction::Download);
    (0..config.paths.len()).map(|path| links[2 * path + away]).collect()
}

fn counts(outcome: &Outcome, links: &[LinkCounts]) -> Counts {
    let counted = |counters: &Counters, names: &[&str]| -> Option<u64> {
        Some(names.iter().filter_map(|name| counters.get(*name)).sum())
    };
    let (sender, receiver) = (&outcome.sender_counters, &outcome.receiver_counters);
    let is_multipath = outcome.last.connection.is_some();
    let out_of_order = if is_multipath { "MPTcpExt.OFOQueue" } else { "TcpExt.TCPOFOQueue" };
    Counts {
        arrived: Some(links.iter().map(|link| link.delivered).sum()),
        out_of_order: counted(receiver, &[out_of_order]),
        reinjections: counted(sender, &["MPTcpExt.MPTCPRetrans"]),
        // Its scheduler makes none.
        copies: Some(0),
        duplicates: counted(receiver, &["MPTcpExt.DuplicateData"]),
        window_drops: counted(receiver, &["MPTcpExt.NoDSSInWindow"]),
        timeouts: counted(sender, &["TcpExt.TCPTimeouts"]),
        spurious: counted(sender, &UNDONE),
        ..Counts::default()
    }
}

fn paths(outcome: &Outcome, links: &[LinkCounts]) -> Vec<PathFigures> {
    let path = |(subflow, link): (&crate::Subflow, &LinkCounts)| PathFigures {
        delivered: subflow.bytes_acked,
        packets: link.pushed,
        retransmissions: subflow.total_retrans.into(),
        lost: Some(link.lost),
        queue_drops: Some(link.dropped_queue),
        srtt: subflow.srtt,
        ..PathFigures::default()
    };
    outcome.last.paths.iter().zip(links).map(path).collect()
}

#[cfg(test)]
mod tests {
    use weftway_path::{Bytes, Instant, Span};

    use super::*;
    use crate::kernel::{Connection, Sample, Subflow};
    use crate::{EmulatorReport, Lateness, testing};

    fn counters(of: &[(&str, u64)]) -> Counters {
        of.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    /// A download of 2 MB in a second: of the links, those from the server count, which have odd numbers.
    fn measured() -> Measured {
        let subflow = |bytes, total_retrans, ms| Subflow {
            bytes_acked: Bytes::new(bytes),
            total_retrans,
            srtt: Span::from_millis(ms),
            ..Subflow::default()
        };
        let link = |pushed, lost| LinkCounts { pushed, delivered: pushed - lost, lost, ..LinkCounts::default() };
        let last = Sample {
            paths: vec![subflow(1_200_000, 8, 25), subflow(800_000, 2, 75)],
            connection: Some(Connection::default()),
            ..Sample::default()
        };
        let mut lateness = Lateness::default();
        lateness.add(Span::from_nanos(1_000));
        lateness.add(Span::from_nanos(3_000));
        let report = EmulatorReport {
            links: vec![link(500, 0), link(900, 9), link(400, 0), link(600, 0)],
            lateness,
            first_entered: Some(Instant::from_millis(5)),
            refused: 0,
            devices_lost: 0,
            realtime: false,
            elapsed: Span::from_secs(1),
        };
        let outcome = Outcome {
            elapsed: Span::from_secs(1),
            delivered: Bytes::new(2_000_000),
            finished: true,
            last,
            sender_counters: counters(&[
                ("TcpExt.TCPFullUndo", 2),
                ("TcpExt.TCPLossUndo", 1),
                ("TcpExt.TCPTimeouts", 4),
            ]),
            receiver_counters: counters(&[("MPTcpExt.OFOQueue", 150), ("TcpExt.TCPOFOQueue", 7)]),
            ..Outcome::default()
        };
        Measured { outcome, report, traffic: Vec::new() }
    }

    /// Of 900 + 600 packets 9 were lost, so 1491 arrived, of which 150 out of order; 8 + 2 were sent again.
    #[test]
    fn a_row_of_the_kernel_has_its_counters_under_the_columns_of_a_simulated_one() {
        let config = &testing::variant(&[]).config;
        let row = measured().measurement(config).row(config);
        let figure = |column: &str| row[column].as_f64();
        assert_eq!((row["verdict"].as_str(), figure("fct_ms")), (Some("finished"), Some(1000.0)));
        assert_eq!((figure("goodput_mbps"), figure("ooo_packets")), (Some(16.0), Some(150.0)));
        assert_eq!(figure("ooo_share"), Some(0.100604));
        assert_eq!((figure("retransmissions"), figure("retransmission_rate")), (Some(10.0), Some(0.006667)));
        assert_eq!((figure("timeouts"), figure("spurious"), figure("duplicates")), (Some(4.0), Some(3.0), Some(0.0)));
        assert_eq!((figure("path.wifi.packets"), figure("path.wifi.lost")), (Some(900.0), Some(9.0)));
        assert_eq!((figure("path.lte.share"), figure("path.lte.srtt_ms")), (Some(0.4), Some(75.0)));
        assert_eq!((row["late"].as_bool(), figure("late_mean_us")), (Some(false), Some(2.0)));
    }

    /// No packet was late by itself, but the links' schedules came too early for the connection.
    #[test]
    fn a_run_is_late_whose_connection_began_long_after_its_links() {
        let config = &testing::variant(&[]).config;
        let mut measured = measured();
        let late = |measured: &Measured| measured.measurement(config).row(config)["late"].as_bool();
        assert_eq!(late(&measured), Some(false), "5 ms are in time");
        measured.report.first_entered = Some(Instant::from_micros(5_001));
        assert_eq!(late(&measured), Some(true));
        measured.report.first_entered = None;
        assert_eq!(late(&measured), Some(true), "it never began");
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_null() {
        let config = &testing::variant(&[]).config;
        let row = measured().measurement(config).row(config);
        let nulls: Vec<&str> = row.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.as_str()).collect();
        let unknown = [
            "aggregation_benefit",
            "benefit_fair",
            "best_single_mbps",
            "reorder_delay_ms",
            "receive_buffer_max_kb",
            "receive_buffer_mean_kb",
            "ooo_wireshark",
            "retx_wireshark",
            "decisions",
            "waits",
            "faults",
            "fallback_decided",
            "fallback_differs",
            "chosen_rate_mbps",
            "message_p50_ms",
            "message_p95_ms",
            "message_p99_ms",
            "deadline_miss_rate",
            "utility_popov_2025",
            "path.wifi.reinjections",
            "path.wifi.timeouts",
            "path.lte.reinjections",
            "path.lte.timeouts",
        ];
        assert_eq!(nulls, unknown);
    }

    /// Three messages were due, one came within 50 ms, one later, one never.
    #[test]
    fn a_message_that_never_came_has_missed_its_deadline() {
        let sets =
            ["workload={ kind = \"messages\", size = \"1 kB\", period = \"10 ms\", count = 3, deadline = \"50 ms\" }"];
        let config = &testing::variant(&sets).config;
        let mut measured = measured();
        measured.outcome.message_delays = vec![Some(Span::from_millis(60)), Some(Span::from_millis(40)), None];
        let row = measured.measurement(config).row(config);
        assert_eq!(row["message_p50_ms"].as_f64(), Some(40.0));
        assert_eq!(row["deadline_miss_rate"].as_f64(), Some(0.666667));
    }
}
