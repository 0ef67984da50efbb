//! Configurations that scenarios become.

use weftway_link::{Distribution, Limit, Loss, Rate, Set};
use weftway_path::{BitRate, Bytes, Instant, Role, Span, Thresholds, Tier};
use weftway_sched::Mode;

use super::{PLAIN, parse, plain, with_sets};
use crate::config::{
    Buffer, CrossLink, Direction, FlowClass, FlowKind, MessageSize, PathPolicy, SimConfig, TransportConfig, WebObject,
    Workload,
};
use crate::stack::Stack;

fn config(text: &str) -> SimConfig {
    let variants = parse(text).and_then(|scenario| scenario.variants());
    variants.unwrap_or_else(|error| panic!("{error}")).remove(0).config
}

#[test]
fn the_plain_scenario() {
    let scenario = parse(PLAIN).unwrap();
    assert_eq!((scenario.title.as_str(), scenario.seeds.clone()), ("Two paths", 0..3));
    assert_eq!(
        (scenario.schedulers.as_slice(), scenario.controllers.as_slice()),
        (&["min-rtt".to_owned()][..], &["cubic".to_owned()][..])
    );
    assert_eq!(scenario.backends, ["sim"]);
    let config = config(PLAIN);
    assert_eq!(config.transport.stack, Stack::MptcpV09x);
    assert_eq!(config.workload, Workload::Bulk { bytes: Bytes::new(20_000_000) });
    let [wifi, lte] = &config.paths[..] else { panic!("two paths") };
    assert_eq!((wifi.name.as_str(), lte.name.as_str()), ("wifi", "lte"));
    assert_eq!(wifi.data.rate, Rate::Constant(BitRate::from_mbps(30)));
    assert_eq!((wifi.data.delay, wifi.acks.delay), (Span::from_millis(10), Span::from_millis(10)));
    assert_eq!(wifi.data.queue.limit, Limit::Packets(100));
}

#[test]
fn a_single_loss_is_for_the_data() {
    let config = config(PLAIN);
    assert_eq!((&config.paths[0].data.loss, &config.paths[0].acks.loss), (&Loss::Bernoulli(0.005), &Loss::None));
    let both = plain("loss = \"0.5 %\"", "loss = { down = \"1 %\", up = \"2 %\" }");
    let config = self::config(&both);
    assert_eq!(
        (&config.paths[0].data.loss, &config.paths[0].acks.loss),
        (&Loss::Bernoulli(0.01), &Loss::Bernoulli(0.02))
    );
}

#[test]
fn the_data_of_an_upload_go_up() {
    let down = config(PLAIN);
    let up = config(&format!("direction = \"upload\"\n{PLAIN}"));
    assert_eq!(up.transport.direction, Direction::Upload);
    assert_eq!(up.paths[1].data.rate, Rate::Constant(BitRate::from_mbps(5)));
    assert_eq!((&up.paths[1].data, &up.paths[1].acks), (&down.paths[1].acks, &down.paths[1].data));
}

#[test]
fn a_path_with_every_key() {
    let text = plain(
        "[path.wifi]\nrate = \"30 Mbit/s\"\n",
        r#"[link.uplink]
rate = "40 Mbit/s"
queue = "30 kB"
[path.wifi]
rate = "30 Mbit/s"
jitter = "correlated 2 ms over 100 ms"
reorder = true
queue = "2 BDP"
aqm = { kind = "codel", target = "10 ms" }
ecn = "codel"
arq = { hides = "50 %", delay = "8 ms" }
schedule = [{ at = "5 s", rate = "3 Mbit/s", delay = "20 ms" }, { at = "9 s", state = "down" }]
redraw = { every = "1 s", rate = "10 Mbit/s..30 Mbit/s" }
role = "backup"
via = "uplink"
present = ["0 s..20 s", "30 s.."]
"#,
    );
    let config = config(&text);
    let path = &config.paths[0];
    let jitter = path.data.jitter.unwrap();
    assert_eq!(
        jitter.distribution,
        Distribution::Correlated { sd: Span::from_millis(2), over: Span::from_millis(100) }
    );
    assert!(jitter.reorder);
    // 30 Mbit/s for 10 + 10 ms are 75 000 bytes; twice that.
    assert_eq!(path.data.queue.limit, Limit::Bytes(Bytes::new(150_000)));
    let sets: Vec<_> =
        path.data.changes.iter().map(|change| (change.at.as_nanos() / 1_000_000_000, &change.set)).collect();
    let rate = Set::Rate(Rate::Constant(BitRate::from_mbps(3)));
    assert_eq!(sets, [(5, &rate), (5, &Set::Delay(Span::from_millis(20))), (9, &Set::Down)]);
    let redraw = path.data.redraw.as_ref().unwrap();
    assert_eq!(redraw.rate, Some((BitRate::from_mbps(10), BitRate::from_mbps(30))));
    assert_eq!((path.role, path.via), (Role::Backup, Some(0)));
    assert_eq!(path.presence, [0, 20_000, 30_000].map(Instant::from_millis));
    assert_eq!(config.shared[0].queue.limit, Limit::Bytes(Bytes::new(30_000)));
}

/// Half of the fades last 2 s, 95 of 100 at most 43: a deviation of ln (43 / 2) / 1.645 of the logarithm.
#[test]
fn fades_are_those_of_both_ways() {
    let fade = "fade = { share = \"16.5 %\", median = \"2 s\", p95 = \"43 s\", floor = \"0 Mbit/s..0.9 Mbit/s\" }";
    let short = "fade = { share = \"5 %\", median = \"0.5 s\" }";
    let text = plain("loss = \"0.5 %\"", fade).replace("delay = \"35 ms\"", &format!("delay = \"35 ms\"\n{short}"));
    let config = config(&text);
    let [wifi, lte] = [0, 1].map(|at| config.paths[at].data.fade.unwrap());
    assert_eq!(
        (wifi.share, wifi.median, wifi.floor),
        (0.165, Span::from_secs(2), (BitRate::ZERO, BitRate::from_bps(900_000)))
    );
    assert!((wifi.sigma - 1.865_3).abs() < 1e-4, "{}", wifi.sigma);
    assert_eq!((lte.sigma, lte.floor), (0.0, (BitRate::ZERO, BitRate::ZERO)));
    assert_eq!(config.paths[0].acks.fade, Some(wifi));
    assert_ne!(wifi.group, lte.group);
}

#[test]
fn redraws_with_the_same_name_are_one_group() {
    let redraw = |name: &str| {
        format!("redraw = {{ every = \"1 s\", rate = \"5 Mbit/s\", common = \"{name}\", correlation = \"40 %\" }}")
    };
    let common = |names: [&str; 2]| {
        let text = plain("loss = \"0.5 %\"", &redraw(names[0]));
        let config = config(&text.replace("delay = \"35 ms\"", &redraw(names[1])));
        [0, 1].map(|at| config.paths[at].data.redraw.clone().unwrap().common.unwrap())
    };
    let [one, other] = common(["operator", "operator"]);
    assert_eq!((one, one.correlation), (other, 0.4));
    let [one, other] = common(["operator", "other"]);
    assert_ne!(one.group, other.group);
}

#[test]
fn a_policy_has_tiers_caps_prices_and_thresholds() {
    let keys = "[path.lte]\ntier = \"secondary\"\ncap = \"2 GB\"\nprice = \"4 /GB\"\n";
    let text = plain("[path.lte]\n", keys) + "[policy]\nopen_after = \"100 ms\"\nopen_delay = \"1 s\"\n";
    let policy = config(&text).policy.unwrap();
    let lte = PathPolicy { tier: Tier::Secondary, cap: Some(Bytes::new(2_000_000_000)), price: Some(4_000_000) };
    assert_eq!(policy.paths, [PathPolicy::default(), lte]);
    let thresholds = Thresholds {
        open_after: Span::from_millis(100),
        open_delay: Some(Span::from_secs(1)),
        close_after: Span::from_secs(2),
    };
    assert_eq!(policy.thresholds, thresholds);
    // 3 GB at 4 a GB.
    assert!((lte.cost(Bytes::new(3_000_000_000)) - 12.0).abs() < 1e-9);
    assert_eq!(config(&plain("", "")).policy, None);
    assert_eq!(config(&plain("loss = \"0.5 %\"", "role = \"backup\"")).policy, None);
}

#[test]
fn a_tier_of_backup_is_a_role_and_one_of_never_is_no_path() {
    let path = |tier: &str| config(&plain("loss = \"0.5 %\"", &format!("tier = \"{tier}\""))).paths[0].clone();
    assert_eq!((path("backup").role, path("secondary").role), (Role::Backup, Role::Active));
    assert_eq!(path("never").presence, [Instant::NEVER]);
}

#[test]
fn losses_in_bursts_by_number_and_by_time() {
    let loss = |text: &str| config(&plain("loss = \"0.5 %\"", &format!("loss = {text}"))).paths[0].data.loss.clone();
    let bursts = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.0, loss_bad: 1.0 };
    assert_eq!(loss("{ enter = \"1 %\", leave = \"20 %\" }"), bursts);
    assert_eq!(loss("{ packets = [0, 7] }"), Loss::Packets(vec![0, 7]));
    let window = (Instant::from_millis(1000), Instant::from_millis(2000));
    assert_eq!(loss("{ during = [\"1 s..2 s\"] }"), Loss::Windows(vec![window]));
    assert_eq!(loss("\"0 %\""), Loss::None);
}

#[test]
fn options_change_the_transport() {
    let text = format!(
        "{PLAIN}[options]\nmss = \"1448 B\"\nreceive_buffer = \"1 MiB\"\nsend_buffer = {{ auto = \"2 MiB\" }}\nopportunistic = false\n"
    );
    let transport = config(&text).transport;
    assert_eq!(transport.mss, Bytes::new(1448));
    assert_eq!(transport.receive_buffer, Buffer::Fixed(Bytes::new(1 << 20)));
    assert_eq!(transport.send_buffer, Buffer::Auto { max: Bytes::new(2 << 20) });
    assert_eq!((transport.opportunistic, transport.penalise), (Some(false), None));
}

#[test]
fn each_stack_has_its_own_defaults() {
    for stack in Stack::ALL {
        assert_eq!(TransportConfig::of(stack).stack, stack);
    }
    let tcp = TransportConfig::tcp();
    assert_eq!(TransportConfig::mptcp_linux_v1().as_tcp(), tcp, "what MPTCP falls back to is TCP");
    let text = "title = \"One path\"\ntransport = \"tcp\"\n[path.a]\nrate = \"1 Mbit/s\"\n[workload]\nkind = \"bulk\"\nbytes = \"1 kB\"\n";
    assert_eq!(config(text).transport, tcp);
}

#[test]
fn an_option_of_another_stack_has_no_effect() {
    let text = format!("transport = \"mpquic\"\n{PLAIN}[options]\nmin_rto = \"1 s\"\nrto_floor = \"rfc6298\"\n");
    assert_eq!(config(&text).transport, TransportConfig::mpquic());
}

/// A key of TCP does nothing to QUIC, whose timers have no ticks and whose packets never wait to be full.
#[test]
fn small_packets_and_ticks_are_of_tcp() {
    let set = |transport: &str| {
        let text = format!("transport = \"{transport}\"\n{PLAIN}\n[options]\nnodelay = false\ntick = \"1 ms\"\n");
        let transport = config(&text).transport;
        (transport.holds_small(), transport.tick)
    };
    assert_eq!(set("mptcp"), (true, Span::from_millis(1)));
    assert_eq!(set("mpquic"), (false, Span::ZERO));
}

#[test]
fn every_workload() {
    let workload = |keys: &str| config(&plain("kind = \"bulk\"\nbytes = \"20 MB\"", keys)).workload;
    assert_eq!(workload("kind = \"bulk\"\nbytes = \"1 B\""), Workload::Bulk { bytes: Bytes::new(1) });
    assert_eq!(workload("kind = \"bulk\"\nbytes = \"10 GB\""), Workload::Bulk { bytes: Bytes::new(10_000_000_000) });
    assert_eq!(
        workload("kind = \"duration\"\nduration = \"5 min\""),
        Workload::Duration { span: Span::from_secs(300) }
    );
    let messages = workload(
        "kind = \"messages\"\nsizes = [{ weight = 9, bytes = \"100 B\" }, { weight = 1, bytes = \"1 kB\", class = 2 }]\nperiod = \"20 ms\"\ncount = 5_0\ndeadline = \"80 ms\"",
    );
    let size = |weight, bytes, class| MessageSize { weight, bytes: Bytes::new(bytes), class };
    let sizes = vec![size(9, 100, 0), size(1, 1000, 2)];
    let (period, deadline) = (Span::from_millis(20), Some(Span::from_millis(80)));
    assert_eq!(messages, Workload::Messages { sizes, period, count: 50, deadline });
    let stream = workload(
        "kind = \"stream\"\nrate = \"8 Mbit/s\"\nperiod = \"40 ms\"\ndeadline = \"150 ms\"\nduration = \"20 s\"",
    );
    assert!(matches!(stream, Workload::Stream { key_every: 0, key_ratio: 1, .. }));
    let limited = workload("kind = \"limited\"\nrate = \"64 kB/s\"\nbytes = \"10 MB\"");
    assert_eq!(limited, Workload::Limited { rate: BitRate::from_bps(512_000), bytes: Bytes::new(10_000_000) });
    let requests = workload("kind = \"request-response\"\nbytes = \"50 kB\"\ncount = 20");
    assert_eq!(requests, Workload::RequestResponse { bytes: Bytes::new(50_000), think: Span::ZERO, count: 20 });
}

/// The document names a style sheet and two pictures, the style sheet a font, which stands last in the file.
#[test]
fn a_page_is_in_the_order_in_which_it_is_asked_for() {
    let page = config(&plain(
        "kind = \"bulk\"\nbytes = \"20 MB\"",
        "kind = \"web\"\ndocument = \"10 kB\"\nthink = \"5 ms\"\nobjects = [{ name = \"style\", bytes = \"2 kB\" }, \
         { bytes = \"3 kB\", after = \"style\" }, { bytes = \"1 kB\", count = 2 }]",
    ));
    let object = |kb: u64, children: u64| WebObject { bytes: Bytes::new(kb * 1000), children };
    let objects = vec![object(10, 3), object(2, 1), object(1, 0), object(1, 0), object(3, 0)];
    assert_eq!(page.workload, Workload::Web { objects, think: Span::from_millis(5) });
}

#[test]
fn speech_and_calls() {
    let workload = |keys: &str| config(&plain("kind = \"bulk\"\nbytes = \"20 MB\"", keys)).workload;
    let (period, deadline) = (Span::from_millis(20), Span::from_millis(150));
    let span = Span::from_secs(10);
    let times = "period = \"20 ms\"\ndeadline = \"150 ms\"\nduration = \"10 s\"";
    let voip = workload(&format!("kind = \"voip\"\nsize = \"172 B\"\n{times}"));
    assert_eq!(voip, Workload::Voip { bytes: Bytes::new(172), period, deadline, span });
    let mbps = BitRate::from_mbps;
    let call = workload(&format!("kind = \"call\"\nrate = \"2 Mbit/s\"\n{times}"));
    assert_eq!(call, Workload::Call { rate: mbps(2), back: mbps(2), period, deadline, span });
    let call = workload(&format!("kind = \"call\"\nrate = \"2 Mbit/s\"\nback_rate = \"1 Mbit/s\"\n{times}"));
    assert_eq!(call.reverse(), Some(Workload::Call { rate: mbps(1), back: mbps(2), period, deadline, span }));
}

/// 1250 B at 1 Mbit/s take 10 ms.
#[test]
fn datagrams_have_a_rate_a_period_or_bursts() {
    let found = |keys: &str| {
        let times = "deadline = \"150 ms\"\nduration = \"10 s\"";
        let keys = format!("kind = \"datagrams\"\nsize = \"1250 B\"\n{keys}\n{times}");
        let text = plain("kind = \"bulk\"\nbytes = \"20 MB\"", &keys);
        let text = format!("transport = \"mpquic\"\n{text}[options]\nmss = \"1300 B\"\npacket = \"1400 B\"\n");
        match config(&text).workload {
            Workload::Datagrams { bytes, rate, period, deadline, span } => {
                assert_eq!((bytes.get(), deadline.as_nanos(), span.as_nanos()), (1250, 150_000_000, 10_000_000_000));
                (rate, period)
            }
            other => panic!("{other:?}"),
        }
    };
    let ten = Span::from_millis(10);
    assert_eq!(found("period = \"10 ms\""), (None, ten));
    assert_eq!(found("rate = \"1 Mbit/s\""), (None, ten));
    assert_eq!(found("rate = \"8 Mbit/s\"\nperiod = \"10 ms\""), (Some(BitRate::from_mbps(8)), ten));
}

/// ln(100 kB / 12 kB) / 1.64485 = 1.2890.
#[test]
fn flows_are_log_normal_where_they_have_a_95th_percentile() {
    let flows = "kind = \"flows\"\nmean_gap = \"50 ms\"\ncount = 300\nbulk = { median = \"1 MB\" }\n\
                 interactive = { weight = 4, median = \"12 kB\", p95 = \"100 kB\" }";
    let text = plain("kind = \"bulk\"\nbytes = \"20 MB\"", flows);
    let found = config(&format!("transport = \"mpquic\"\n{text}")).workload;
    let Workload::Flows { mean_gap, count: 300, kinds } = found else { panic!("{found:?}") };
    assert_eq!(mean_gap, Span::from_millis(50));
    let kind = |class, weight, bytes, sigma| FlowKind { class, weight, median: Bytes::new(bytes), sigma };
    assert!((kinds[0].sigma - 1.2890).abs() < 1e-4, "{kinds:?}");
    assert_eq!(kinds[0], kind(FlowClass::Interactive, 4, 12_000, kinds[0].sigma));
    assert_eq!(kinds[1..], [kind(FlowClass::Bulk, 1, 1_000_000, 0.0)]);
}

#[test]
fn a_range_changes_no_run() {
    let open = format!("{PLAIN}[range]\n\"path.wifi.rate\" = \"20 Mbit/s..30 Mbit/s\"\n");
    assert_eq!(parse(&open).unwrap().hash(), parse(PLAIN).unwrap().hash());
}

#[test]
fn a_long_workload_has_its_time() {
    let text = plain("kind = \"bulk\"\nbytes = \"20 MB\"", "kind = \"duration\"\nduration = \"1 h\"");
    assert_eq!(config(&text).time_limit, Span::from_secs(7200));
    assert_eq!(config(PLAIN).time_limit, Span::from_secs(600));
}

#[test]
fn a_rival_and_cross_traffic() {
    let text = format!(
        "{PLAIN}[options]\ninitial_window = \"16 packets\"\n[link.shared]\nrate = \"50 Mbit/s\"\n[path.other]\nrate = \"50 Mbit/s\"\nvia = \"shared\"\nconnection = \"rival\"\n\
         [rival]\ntransport = \"tcp\"\ninitial_window = \"32 packets\"\nstart = \"2 s\"\n[cross.noise]\non = \"shared\"\nrate = \"5 Mbit/s\"\npoisson = true\n"
    );
    let config = config(&text);
    assert_eq!(config.paths.len(), 2);
    let rival = config.rival.unwrap();
    assert_eq!((rival.paths.len(), rival.paths[0].via, rival.start), (1, Some(0), Instant::from_millis(2000)));
    assert_eq!((rival.cc.as_str(), rival.scheduler.as_str()), ("cubic", "min-rtt"));
    assert_eq!((rival.transport.initial_window, config.transport.initial_window), (32, 16));
    assert_eq!(config.cross[0].on, CrossLink::Shared(0));
    assert!(config.cross[0].poisson);
}

#[test]
fn variants_are_all_combinations() {
    let text = format!(
        "{PLAIN}[vary]\nscheduler = [\"ecf\", \"blest\"]\ncc = \"lia\"\n\"path.wifi.loss\" = [\"0 %\", \"1 %\"]\n\
         \"path.wifi.delay, path.lte.delay\" = [[\"1 ms\", \"2 ms\"], [\"3 ms\", \"4 ms\"], [\"5 ms\", \"6 ms\"]]\n"
    );
    let scenario = parse(&text).unwrap();
    assert_eq!(scenario.schedulers, ["ecf", "blest"]);
    assert_eq!(scenario.controllers, ["lia"]);
    let variants = scenario.variants().unwrap();
    assert_eq!(variants.len(), 6);
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let labels = [label("path.wifi.loss", "0 %"), label("path.wifi.delay", "3 ms"), label("path.lte.delay", "4 ms")];
    assert_eq!(variants[1].labels, labels);
    assert_eq!(variants[1].config.paths[1].data.delay, Span::from_millis(4));
}

#[test]
fn labels_as_sets_give_the_same_variant() {
    let text = format!(
        "{PLAIN}[vary]\n\"path.wifi.loss\" = [\"0 %\", \"1 %\"]\ntransport = [\"mptcp\", \"mpquic\"]\n\"path.lte.rate\" = [{{ down = \"9 Mbit/s\", up = \"2 Mbit/s\" }}, \"3 Mbit/s\"]\n"
    );
    for variant in parse(&text).unwrap().variants().unwrap() {
        let sets: Vec<String> = variant.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let alone = with_sets(&text, &sets).unwrap().variants().unwrap();
        assert_eq!(alone.len(), 1);
        assert_eq!((&alone[0].config, &alone[0].hash), (&variant.config, &variant.hash));
    }
}

#[test]
fn a_set_takes_one_of_two_keys_that_vary_together() {
    let text =
        format!("{PLAIN}[vary]\n\"path.wifi.delay, path.lte.delay\" = [[\"1 ms\", \"2 ms\"], [\"3 ms\", \"4 ms\"]]\n");
    let variants = with_sets(&text, &["path.wifi.delay=9 ms"]).unwrap().variants().unwrap();
    let delays = variants.iter().map(|variant| [0, 1].map(|path| variant.config.paths[path].data.delay.as_millis()));
    assert_eq!(delays.collect::<Vec<_>>(), [[9, 2], [9, 4]]);
    let alone = with_sets(&text, &["path.wifi.delay=9 ms", "path.lte.delay=8 ms"]).unwrap();
    assert_eq!(alone.variants().unwrap().len(), 1);
}

#[test]
fn the_text_as_set_is_what_is_run() {
    let text = format!("{PLAIN}[vary]\n\"path.wifi.loss\" = [\"0 %\", \"1 %\"]\n");
    let scenario = with_sets(&text, &["path.wifi.loss=4%", "path.lte.rate=3 Mbit/s"]).unwrap();
    let again = parse(&scenario.text_as_set()).unwrap();
    assert_eq!((again.hash(), again.variants().unwrap().len()), (scenario.hash(), 1));
    assert_ne!(again.hash(), parse(&text).unwrap().hash());
}

#[test]
fn a_set_needs_no_quotes() {
    let sets = ["path.lte.delay=5 ms", "seeds=0..2", "options.ecn=true", "path.wifi.queue = \"64 kB\"", "title=a = b"];
    let scenario = with_sets(PLAIN, &sets).unwrap();
    assert_eq!((scenario.title.as_str(), scenario.seeds.clone()), ("a = b", 0..2));
    let config = scenario.variants().unwrap().remove(0).config;
    assert_eq!(config.paths[1].data.delay, Span::from_millis(5));
    assert!(config.transport.ecn);
    assert_eq!(config.paths[0].data.queue.limit, Limit::Bytes(Bytes::new(64_000)));
}

#[test]
fn the_hash_is_of_what_decides_results() {
    let hash = |text: &str| parse(text).unwrap().hash().to_owned();
    let base = hash(PLAIN);
    assert_eq!(base.len(), 16);
    for same in [
        plain("title = \"Two paths\"", "# a comment\ntitle = \"Other\""),
        plain("seeds = \"0..3\"", "seeds = \"0..9\"\nscheduler = \"ecf\""),
        plain("rate = \"30 Mbit/s\"\ndelay = \"10 ms\"", "delay = \"10  ms\"\nrate = \"30 Mbit/s\""),
    ] {
        assert_eq!(hash(&same), base, "{same}");
    }
    for other in [plain("10 ms", "11 ms"), plain("path.wifi", "path.wlan"), plain("0.5 %", "0.6 %")] {
        assert_ne!(hash(&other), base, "{other}");
    }
}

#[test]
fn the_order_of_paths_is_the_order_of_the_file() {
    let swapped =
        "[path.b]\nrate = \"1 Mbit/s\"\n[path.a]\nrate = \"1 Mbit/s\"\n[workload]\nkind = \"bulk\"\nbytes = \"1 B\"\n";
    let names: Vec<String> = config(swapped).paths.into_iter().map(|path| path.name).collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn decisions_may_come_in_intervals() {
    let text = format!("{PLAIN}[decision]\ninterval = \"100 ms\"\nmode = \"exclusive\"\ndelay = \"20 ms\"\n");
    let timing = parse(&text).unwrap().variants().unwrap()[0].timing.unwrap();
    assert_eq!(
        (timing.interval, timing.mode, timing.delay),
        (Some(Span::from_millis(100)), Mode::Exclusive, Span::from_millis(20))
    );
}

/// The file's `stack` is of MPTCP. It goes where another transport is set, and may not come back.
#[test]
fn another_transport_leaves_the_stack_out() {
    let text = format!("stack = \"linux-v1\"\n{PLAIN}");
    let transport = |sets: &[&str]| with_sets(&text, sets).map(|found| found.variants().unwrap()[0].transport);
    assert_eq!(transport(&["transport=mpquic"]).unwrap(), "mpquic");
    assert_eq!(transport(&["transport=mptcp"]).unwrap(), "mptcp");
    for sets in [["transport=mpquic", "stack=linux-v1"], ["stack=linux-v1", "transport=mpquic"]] {
        let error = transport(&sets).unwrap_err();
        assert_eq!(error.reason, "only transport = \"mptcp\" comes in several stacks");
    }
}

/// A full packet has 20 B of IP, 20 B of TCP and 12 B of timestamps. Linux v1's DSS option (RFC 8684 §3.3) has a head
/// of 4 B, a DATA_ACK of 4 B and a mapping of 14 B (a sequence number of 8 B, no checksum); that of v0.9x a mapping of
/// 12 B (4 B, with a checksum), and the same acknowledgement. Options are padded to words.
#[test]
fn a_full_packet_has_room_for_the_data_ack_beside_the_mapping() {
    let padded = |mapping: u64| Bytes::new((4 + 4 + mapping).next_multiple_of(4));
    for (transport, mapping) in [(TransportConfig::mptcp_linux_v1(), 14), (TransportConfig::mptcp_v09x(), 12)] {
        assert_eq!(transport.rules.dss_option, padded(mapping), "{:?}", transport.stack);
        assert_eq!(transport.mss + transport.rules.dss_option, TransportConfig::tcp().mss, "{:?}", transport.stack);
        assert_eq!(transport.packet - transport.mss - transport.rules.dss_option, Bytes::new(20 + 20 + 12));
    }
}
