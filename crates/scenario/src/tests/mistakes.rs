//! Every kind of mistake, with the words that a person reads.

use std::fs;
use std::path::PathBuf;

use super::{PLAIN, parse, plain, with_sets};
use crate::{Mistake, Scenario, ScenarioError};

fn error(text: &str) -> ScenarioError {
    parse(text).expect_err("this scenario is wrong")
}

/// The kind of mistake, its line and column, and its words.
fn told(error: &ScenarioError) -> (Mistake, usize, usize, String) {
    let place = error.place.as_deref().unwrap_or_else(|| panic!("no place: {error}"));
    let help = error.help.iter().map(|help| format!(" | {help}"));
    (error.mistake, place.line, place.column, help.fold(error.reason.clone(), |text, help| text + &help))
}

#[test]
fn a_mistake_is_shown_where_it_is() {
    let error = error(&plain("loss =", "los ="));
    let expected = "\
unknown key `los`
 --> test.toml:6:1
  |
6 | los = \"0.5 %\"
  | ^^^
help: did you mean `loss`?";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_policy_that_makes_no_sense() {
    let here = |keys: &str| error(&plain("loss = \"0.5 %\"", keys)).reason;
    for (keys, reason) in [
        ("tier = \"bakcup\"", "unknown value `bakcup`"),
        ("tier = \"backup\"\nrole = \"active\"", "`role` and `tier` say the same of a path: give one of them"),
        ("cap = \"0 B\"", "a path that may carry nothing"),
        ("price = \"4\"", "\"4\" has no unit; a price is written like \"4 /GB\""),
        ("price = \"4 /TB\"", "`/TB` is no unit of a price"),
    ] {
        assert!(here(keys).contains(reason), "{keys}: {}", here(keys));
    }
    let policy =
        |keys: &str| error(&format!("{}[policy]\n{keys}\n", plain("loss = \"0.5 %\"", "tier = \"backup\""))).reason;
    assert_eq!(policy("close_after = \"0 s\""), "`close_after` must be more than zero");
    let alone = error(&format!("{PLAIN}[policy]\nopen_after = \"1 s\"\n")).reason;
    assert_eq!(alone, "no path has a tier, a cap or a price, and these thresholds decide nothing");
    let never = plain("loss = \"0.5 %\"", "tier = \"never\"").replacen("delay = \"35 ms\"", "tier = \"never\"", 1);
    assert_eq!(error(&never).reason, "every path has tier = \"never\": there is nothing to send over");
}

#[test]
fn keys_and_values() {
    let cases = [
        // A unit of another kind, none at all, and one that people type.
        (
            "\"10 ms\"",
            "\"10 Mbit\"",
            5,
            9,
            "`Mbit` is no unit of a time; one of ns, us, µs, ms, s, min, h, as in \"10 ms\"",
        ),
        ("\"10 ms\"", "10", 5, 9, "10 has no unit; a time is written like \"10 ms\""),
        ("\"30 Mbit/s\"", "\"30 Mbps\"", 4, 8, "`Mbps` is no unit of a rate; did you mean \"30 Mbit/s\"?"),
        // Values that cannot be.
        ("\"0.5 %\"", "\"-1 %\"", 6, 8, "\"-1 %\": must not be negative"),
        ("\"0.5 %\"", "\"101 %\"", 6, 8, "\"101 %\" is more than 100 %"),
        ("\"0.5 %\"", "0.5", 6, 8, "0.5 has no unit; expected a loss such as \"0.5 %\""),
        ("\"0.5 %\"", "true", 6, 8, "expected a loss such as \"0.5 %\", found true"),
        ("\"20 MB\"", "20000000", 12, 9, "20000000 has no unit; a size is written like \"64 KiB\""),
        ("\"0..3\"", "\"3..0\"", 2, 9, "the seeds \"3..0\" are in reverse; write \"0..3\""),
        ("\"0..3\"", "3", 2, 9, "3 is not a range of seeds; that is written like \"0..30\""),
        (
            "\"20 Mbit/s\", up = \"5 Mbit/s\"",
            "\"20 Mbit/s\", up = \"5 m\"",
            8,
            35,
            "`m` is no unit of a rate; one of bit/s, kbit/s, Mbit/s, Gbit/s, kB/s, MB/s, as in \"30 Mbit/s\"",
        ),
        (
            "kind = \"bulk\"\nbytes = \"20 MB\"",
            "kind = \"messages\"\nsizes = [{ weight = 1, bytes = \"1 kB\", class = 256 }]\nperiod = \"1 s\"\ncount = 5",
            12,
            9,
            "a `class` is at most 255",
        ),
    ];
    for (from, to, line, column, reason) in cases {
        let error = error(&plain(from, to));
        assert_eq!(told(&error), (Mistake::Value, line, column, reason.to_owned()), "{to}");
    }
}

#[test]
fn a_word_that_is_none_of_the_choices() {
    let told = |text: &str| told(&error(text));
    let choices = told(&format!("direction = \"downlod\"\n{PLAIN}"));
    assert_eq!(choices, (Mistake::Value, 1, 13, "unknown value `downlod` | did you mean `download`?".to_owned()));
    let mode = told(&format!("{PLAIN}[decision]\nmode = \"strict\"\n"));
    assert_eq!(mode, (Mistake::Value, 14, 8, "unknown value `strict` | one of preferred, exclusive".to_owned()));
    let known = told(&format!("{PLAIN}[options]\nbottlenecks = \"guessed\"\n"));
    assert_eq!(known, (Mistake::Value, 14, 15, "unknown value `guessed` | one of none, given, detected".to_owned()));
    let open = told(&format!("{PLAIN}[options]\nopen = \"rase\"\n"));
    assert_eq!(open, (Mistake::Value, 14, 8, "unknown value `rase` | did you mean `race`?".to_owned()));
    let kind = told(&plain("\"bulk\"", "\"bluk\""));
    assert_eq!(kind, (Mistake::Value, 11, 8, "unknown value `bluk` | did you mean `bulk`?".to_owned()));
    let key = told(&plain("bytes =", "byte ="));
    assert_eq!(key, (Mistake::Key, 12, 1, "unknown key `byte` | did you mean `bytes`?".to_owned()));
}

#[test]
fn what_would_never_end_or_never_send() {
    let cases = [
        ("\"30 Mbit/s\"", "\"0 Mbit/s\"", 4, "at this rate nothing is ever sent"),
        ("loss = \"0.5 %\"", "queue = \"0 packets\"", 6, "nothing passes a queue for no packets"),
        ("loss = \"0.5 %\"", "queue = \"1 kB\"", 6, "no full packet passes a queue of 1000 B; it takes 1500 B"),
        ("loss = \"0.5 %\"", "reorder = true", 6, "without `jitter` nothing reorders"),
        ("loss = \"0.5 %\"", "loss = { enter = \"1 %\" }", 6, "losses in bursts need both `enter` and `leave`"),
        (
            "loss = \"0.5 %\"",
            "present = [\"0 s..5 s\", \"4 s..\"]",
            6,
            "these stretches of time overlap or are out of order",
        ),
        (
            "loss = \"0.5 %\"",
            "schedule = [{ at = \"1 s\" }]",
            6,
            "this step changes nothing; give rate, delay, loss or state",
        ),
        ("loss = \"0.5 %\"", "trace = \"a\"", 6, "a trace takes the place of `rate`; give one of them"),
    ];
    for (from, to, line, reason) in cases {
        let error = error(&plain(from, to));
        assert_eq!((error.place.as_ref().unwrap().line, error.reason.as_str()), (line, reason));
    }
    for key in ["mss", "packet", "initial_window", "receive_buffer", "ack_every"] {
        let unit = if key == "initial_window" || key == "ack_every" { "packets" } else { "B" };
        let error = error(&format!("{PLAIN}[options]\n{key} = \"0 {unit}\"\n"));
        assert_eq!(told(&error).3, format!("`{key}` must be more than zero"));
    }
    for (given, reason) in [
        (
            "{ window = \"21 packets\", rtt = \"40 ms\" }",
            "`remembered`: half of its `window`, 21 packets, is no more than the `initial_window` of 10: give a larger one, \
             or leave it out",
        ),
        ("{ window = \"22 packets\", rtt = \"0 ms\" }", "`remembered`: its `rtt` must be more than zero"),
    ] {
        assert_eq!(told(&error(&format!("{PLAIN}[options]\nremembered = {given}\n"))).3, reason);
    }
    let answers =
        plain("kind = \"bulk\"\nbytes = \"20 MB\"", "kind = \"request-response\"\nbytes = \"0 B\"\ncount = 5");
    assert_eq!(told(&error(&answers)).3, "`bytes` must be more than zero");
    let voice = "kind = \"voip\"\nsize = \"160 B\"\nperiod = \"3 s\"\ndeadline = \"1 s\"\nduration = \"2 s\"";
    let voice = plain("kind = \"bulk\"\nbytes = \"20 MB\"", voice);
    assert_eq!(told(&error(&voice)).3, "nothing is sent: `duration` is shorter than one `period`");
    let error = error(&format!("{PLAIN}[options]\nmss = \"1501 B\"\n"));
    assert_eq!(told(&error).1, 13, "{error}");
}

#[test]
fn datagrams_that_cannot_be() {
    let reason = |transport: &str, keys: &str| {
        let keys = format!("kind = \"datagrams\"\ndeadline = \"100 ms\"\nduration = \"2 s\"\n{keys}");
        error(&format!("transport = \"{transport}\"\n{}", plain("kind = \"bulk\"\nbytes = \"20 MB\"", &keys))).reason
    };
    let cases = [
        (
            "mptcp",
            "size = \"900 B\"\nperiod = \"10 ms\"",
            "datagrams keep no order, which MPTCP has not; give transport = \"mpquic\", or another kind of workload",
        ),
        ("mpquic", "size = \"900 B\"", "give the `rate` of the datagrams, the `period`, or both for bursts"),
        ("mpquic", "size = \"900 B\"\nrate = \"0 Mbit/s\"", "`rate` must be more than zero"),
        ("mpquic", "size = \"900 B\"\nperiod = \"0 ms\"", "`period` must be more than zero"),
        ("mpquic", "size = \"900 B\"\nperiod = \"3 s\"", "nothing is sent: `duration` is shorter than one `period`"),
        ("mpquic", "size = \"1197 B\"\nperiod = \"10 ms\"", "a datagram has 8 to 1196 bytes, which one packet holds"),
        ("mpquic", "size = \"7 B\"\nperiod = \"10 ms\"", "a datagram has 8 to 1196 bytes, which one packet holds"),
    ];
    for (transport, keys, expected) in cases {
        assert_eq!(reason(transport, keys), expected);
    }
}

#[test]
fn flows_that_cannot_be() {
    let flows = |transport: &str, keys: &str| {
        let flows = format!("kind = \"flows\"\nmean_gap = \"50 ms\"\n{keys}");
        error(&format!("transport = \"{transport}\"\n{}", plain("kind = \"bulk\"\nbytes = \"20 MB\"", &flows))).reason
    };
    let cases = [
        (
            "mptcp",
            "count = 9\nbulk = { median = \"1 MB\" }",
            "flows are streams of one connection, which MPTCP has not; give transport = \"mpquic\", or another kind of \
             workload",
        ),
        (
            "mpquic",
            "count = 9",
            "no flows: give `interactive`, `bulk` or both, for example `interactive = { median = \"12 kB\", p95 = \"100 \
             kB\" }`",
        ),
        (
            "mpquic",
            "count = 9\nbulk = { median = \"1 MB\", p95 = \"100 kB\" }",
            "95 of 100 flows cannot be smaller than half of them; give a `p95` above `median`",
        ),
        ("mpquic", "count = 9\nbulk = { median = \"0 B\" }", "a flow has at least one byte"),
        ("mpquic", "count = 0\nbulk = { median = \"1 B\" }", "`count` must be more than zero"),
        ("mpquic", "count = 100_001\nbulk = { median = \"1 B\" }", "that makes 100001; at most 100000 are counted"),
    ];
    for (transport, keys, reason) in cases {
        assert_eq!(flows(transport, keys), reason);
    }
}

#[test]
fn a_page_that_cannot_be() {
    let page = |objects: &str| {
        let web = format!("kind = \"web\"\ndocument = \"10 kB\"\nobjects = [{objects}]");
        let error = error(&plain("kind = \"bulk\"\nbytes = \"20 MB\"", &web));
        (told(&error).1, error.reason)
    };
    let cases = [
        (
            "{ bytes = \"1 kB\", after = \"style\" }, { name = \"style\", bytes = \"1 kB\" }",
            "`after = \"style\"`: no object above this one has `name = \"style\"`; without `after` it comes after the \
             document",
        ),
        ("{ bytes = \"1 kB\", count = 0 }", "object number 1: `bytes` and `count` must be more than zero"),
        (
            "{ name = \"a\", bytes = \"1 kB\", count = 2 }",
            "`a` is 2 objects; one that others come after is a single one",
        ),
        ("{ name = \"a\", bytes = \"1 kB\" }, { name = \"a\", bytes = \"1 kB\" }", "two objects are called `a`"),
        ("{ bytes = \"1 kB\", count = 10_000_000 }", "that makes 10000001; at most 10000000 are counted"),
    ];
    for (objects, reason) in cases {
        assert_eq!(page(objects), (13, reason.to_owned()));
    }
}

#[test]
fn a_rival_sends_something() {
    let rival = "[path.x]\nrate = \"1 Mbit/s\"\nconnection = \"rival\"\n[rival]\ninitial_window = \"0 packets\"\n";
    let (mistake, line, _, reason) = told(&error(&format!("{PLAIN}{rival}")));
    assert_eq!((mistake, line, reason.as_str()), (Mistake::Value, 17, "`initial_window` must be more than zero"));
}

#[test]
fn a_call_has_no_rival() {
    let call = "kind = \"call\"\nrate = \"1 Mbit/s\"\nperiod = \"40 ms\"\ndeadline = \"200 ms\"\nduration = \"1 s\"";
    let text = plain("kind = \"bulk\"\nbytes = \"20 MB\"", call);
    let rival = format!("{text}[path.x]\nrate = \"1 Mbit/s\"\nconnection = \"rival\"\n[rival]\n");
    assert!(error(&rival).reason.starts_with("a call is two connections by itself; leave out [rival]"));
    let silent = text.replace("rate = \"1 Mbit/s\"\nperiod", "rate = \"1 Mbit/s\"\nback_rate = \"0 Mbit/s\"\nperiod");
    assert_eq!(error(&silent).reason, "`back_rate` must be more than zero");
}

#[test]
fn ranges() {
    let told = |line: &str| told(&error(&format!("{PLAIN}[range]\n{line}\n")));
    let form = "expected from where to where, as in \"20 Mbit/s..30 Mbit/s\"".to_owned();
    assert_eq!(told("\"path.wifi.rate\" = \"20 Mbit/s\""), (Mistake::Value, 14, 20, form));
    let unknown = told("\"path.wify.rate\" = \"1 Mbit/s..2 Mbit/s\"");
    assert_eq!(unknown, (Mistake::Name, 14, 1, "unknown path `wify` | did you mean `wifi`?".to_owned()));
    let unit = told("\"path.wifi.rate\" = \"1 ms..2 Mbit/s\"");
    assert_eq!((unit.1, unit.3.starts_with("`ms` is no unit of a rate")), (14, true));
}

#[test]
fn a_race_and_a_path_that_waits_for_the_first_exclude_each_other() {
    let error = error(&format!("{PLAIN}[options]\npath_manager = \"primary-first\"\nopen = \"race\"\n"));
    let reason = "`race` begins on all paths at once, and `path_manager = \"primary-first\"` on the first alone; leave \
                  one of them out";
    assert_eq!(told(&error), (Mistake::Value, 15, 8, reason.to_owned()));
    parse(&format!("{PLAIN}[options]\npath_manager = \"backup\"\nopen = \"race\"\n")).unwrap();
}

#[test]
fn a_silent_path_that_a_schedule_wakes_is_sound() {
    parse(&plain("\"30 Mbit/s\"", "\"0 Mbit/s\"\nschedule = [{ at = \"1 s\", rate = \"1 Mbit/s\" }]")).unwrap();
    parse(&plain("\"30 Mbit/s\"", "\"0 Mbit/s\"\nredraw = { every = \"1 s\", rate = \"0 Mbit/s..1 Mbit/s\" }"))
        .unwrap();
}

#[test]
fn a_fade_that_makes_no_sense() {
    let told = |keys: &str| told(&error(&plain("loss = \"0.5 %\"", &format!("fade = {{ {keys} }}"))));
    for (keys, reason) in [
        ("share = \"0 %\", median = \"1 s\"", "more than 0 % and less than 100 %"),
        ("share = \"100 %\", median = \"1 s\"", "more than 0 % and less than 100 %"),
        ("share = \"5 %\", median = \"0 s\"", "a fade has a `median` of 1 ms or more"),
        ("share = \"5 %\", median = \"2 s\", p95 = \"1 s\"", "give a `p95` above `median`"),
        ("share = \"5 %\"", "`median`"),
        ("share = \"5 %\", median = \"1 s\", floor = \"1 ms\"", "`ms` is no unit of a rate"),
        ("share = \"5 %\", median = \"1 s\", flor = \"1 Mbit/s\"", "unknown key `flor` | did you mean `floor`?"),
    ] {
        let (_, line, _, said) = told(keys);
        assert!(line == 6 && said.contains(reason), "{keys}: line {line}: {said}");
    }
}

#[test]
fn draws_in_common_need_a_name_a_correlation_and_one_time() {
    let redraw =
        |every: &str, rest: &str| format!("redraw = {{ every = \"{every}\", rate = \"5 Mbit/s..9 Mbit/s\"{rest} }}");
    let told = |wifi: &str, lte: &str| {
        let text = plain("loss = \"0.5 %\"", wifi);
        told(&error(&text.replace("delay = \"35 ms\"", lte)))
    };
    let both = ", common = \"operator\", correlation = \"40 %\"";
    let reason = "links with draws in common need both: a name in `common`, and their `correlation` | for example common = \
                  \"operator\", correlation = \"40 %\"";
    for half in [", common = \"operator\"", ", correlation = \"40 %\""] {
        assert_eq!(told(&redraw("1 s", half), ""), (Mistake::Value, 6, 10, reason.to_owned()));
    }
    let reason = "draws in common come at the same times: `every` is 2 s here, and 1 s for `wifi`";
    let (mistake, line, _, said) = told(&redraw("1 s", both), &redraw("2 s", both));
    assert_eq!((mistake, line, said.as_str()), (Mistake::Value, 9, reason));
}

#[test]
fn names() {
    let told = |text: &str| told(&error(text));
    let scheduler = told(&format!("scheduler = [\"min-rtt\", \"blst\"]\n{PLAIN}"));
    assert_eq!(scheduler, (Mistake::Name, 1, 25, "unknown scheduler `blst` | did you mean `blest`?".to_owned()));
    let switch = told(&format!("scheduler = \"ecf:beat=1\"\n{PLAIN}"));
    assert_eq!(switch, (Mistake::Name, 1, 13, "`ecf` has no parameter `beat` | did you mean `beta`?".to_owned()));
    let controller = told(&format!("{PLAIN}[vary]\ncc = [\"cubik\"]\n"));
    assert_eq!(
        controller,
        (Mistake::Name, 14, 7, "unknown congestion controller `cubik` | did you mean `cubic`?".to_owned())
    );
    let backend = told(&format!("backend = \"kernal\"\n{PLAIN}"));
    assert_eq!(backend, (Mistake::Name, 1, 11, "unknown backend `kernal` | did you mean `kernel`?".to_owned()));
    let via = told(&format!("{}[link.uplink]\nrate = \"9 Mbit/s\"\n", plain("loss = \"0.5 %\"", "via = \"upling\"")));
    assert_eq!(via, (Mistake::Name, 6, 7, "unknown link `upling` | did you mean `uplink`?".to_owned()));
    let varied = told(&format!("{PLAIN}[vary]\n\"path.wify.loss\" = [\"1 %\"]\n"));
    assert_eq!(varied, (Mistake::Name, 14, 1, "unknown path `wify` | did you mean `wifi`?".to_owned()));
    let claim = told(&format!(
        "{PLAIN}[expect.order]\nkind = \"rank\"\nclaim = \"x\"\nmetric = \"fct_ms\"\nbetter = [\"min-rtt\", \"ecff\"]\nworse = []\n"
    ));
    assert_eq!(claim, (Mistake::Name, 17, 22, "unknown scheduler `ecff` | did you mean `ecf`?".to_owned()));
}

#[test]
fn a_class_in_a_python_file_is_for_python_to_find() {
    let scenario = parse(&format!("scheduler = \"rules/my_rules.py:MyRule\"\n{PLAIN}")).unwrap();
    assert_eq!(scenario.schedulers, ["rules/my_rules.py:MyRule"]);
}

fn many_paths(count: usize) -> String {
    let paths: String = (0..count).map(|n| format!("[path.p{n}]\nrate = \"1 Mbit/s\"\n")).collect();
    format!("{paths}[workload]\nkind = \"bulk\"\nbytes = \"1 MB\"\n")
}

#[test]
fn from_one_path_to_64() {
    let none = error(&many_paths(0));
    assert_eq!((none.mistake, none.reason.as_str()), (Mistake::Missing, "no path: there is nothing to send over"));
    assert!(none.to_string().contains("\n --> test.toml\n"), "{none}");
    assert_eq!(parse(&many_paths(64)).unwrap().variants().unwrap()[0].config.paths.len(), 64);
    // Two lines for each of the 64 that fit, then the one that does not.
    let many = told(&error(&many_paths(65)));
    assert_eq!((many.1, many.3.as_str()), (129, "65 paths; a connection has at most 64"));
    let tcp = error(&format!("transport = \"tcp\"\n{PLAIN}"));
    assert_eq!(tcp.reason, "TCP uses one path, and here are 2");
}

#[test]
fn what_is_missing() {
    let workload = error("[path.a]\nrate = \"1 Mbit/s\"\n");
    assert_eq!((workload.mistake, workload.reason.as_str()), (Mistake::Missing, "the key `workload` is missing"));
    let bytes = told(&error(&plain("bytes = \"20 MB\"\n", "")));
    assert_eq!(bytes, (Mistake::Missing, 10, 1, "the key `bytes` is missing".to_owned()));
    let rate = told(&error(&plain("rate = \"30 Mbit/s\"\n", "")));
    assert_eq!((rate.0, rate.1), (Mistake::Missing, 3));
    let rival = told(&error(&plain("loss = \"0.5 %\"", "connection = \"rival\"")));
    assert_eq!(rival, (Mistake::Missing, 6, 14, "this path is the rival's, and there is no [rival]".to_owned()));
}

#[test]
fn text_that_is_not_toml() {
    let told = told(&error("title = \"x\nseeds = 3\n"));
    assert_eq!((told.0, told.1), (Mistake::Syntax, 1));
    let twice = error(&plain("loss =", "rate ="));
    assert_eq!((twice.mistake, twice.reason.as_str()), (Mistake::Syntax, "`rate` is there already, in line 4"));
    let table = error(&plain("[path.lte]", "[path.wifi] # again"));
    assert_eq!((table.mistake, table.reason.as_str()), (Mistake::Syntax, "`path.wifi` is there already, in line 3"));
}

#[test]
fn mistakes_in_a_set_name_the_set() {
    let told = |set: &str| {
        let error = with_sets(PLAIN, &[set]).expect_err("this --set is wrong");
        let place = error.place.clone().unwrap();
        (place.source, place.column, place.text, error.reason)
    };
    let unit = "`s%` is no unit of a share; did you mean \"2 %\"?".to_owned();
    assert_eq!(told("path.lte.loss=2s%"), ("--set".to_owned(), 15, "path.lte.loss=2s%".to_owned(), unit));
    let key = told("path.lte.los=2%");
    assert_eq!((key.1, key.3.as_str()), (1, "unknown key `los`"));
    assert_eq!(told("path.tle.loss=2%").3, "unknown path `tle`");
    let help = |set: &str| with_sets(PLAIN, &[set]).expect_err("this --set is wrong").help.unwrap();
    assert_eq!(told("loss=2%").3, "unknown key `loss`");
    assert_eq!(help("loss=2%"), "did you mean `path.wifi.loss` or `path.lte.loss`?");
    assert_eq!(help("lte.loss=2%"), "did you mean `path.lte.loss`?");
    assert_eq!(help("bytes=2 MB"), "did you mean `workload.bytes`?");
    assert_eq!(told("path.lte.loss").3, "`--set` takes key=value, for example path.lte.loss=2%");
    assert_eq!(told("title.x=1").3, "`x` is inside a value that has no keys");
    let item = told("scheduler=[\"ecf\", \"blst\"]");
    assert_eq!((item.1, item.3.as_str()), (19, "unknown scheduler `blst`"));
}

#[test]
fn values_of_vary_are_checked_where_they_are() {
    let text = format!("{PLAIN}[vary]\n\"path.wifi.loss\" = [\"1 %\", \"2\"]\n");
    assert_eq!(
        told(&error(&text)),
        (Mistake::Value, 14, 28, "\"2\" has no unit; a share is written like \"0.5 %\"".to_owned())
    );
    let text = format!("{PLAIN}[vary]\nseeds = [\"0..1\"]\n");
    assert_eq!(told(&error(&text)).0, Mistake::Key);
    let text = format!("{PLAIN}[vary]\n\"path.wifi.loss, path.lte.loss\" = [[\"1 %\"]]\n");
    assert_eq!(told(&error(&text)).3, "expected a list of 2 values, one for each key");
    let text = format!(
        "{PLAIN}[vary]\n\"path.wifi.loss\" = [\"1 %\"]\n\"path.wifi.loss, path.lte.loss\" = [[\"1 %\", \"1 %\"]]\n"
    );
    assert_eq!(told(&error(&text)).3, "`path.wifi.loss` is varied twice");
    let text = format!("scheduler = \"ecf\"\n{PLAIN}[vary]\nscheduler = [\"blest\"]\n");
    assert_eq!(told(&error(&text)).1, 15);
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weftway-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("scenarios")).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn trace_files() {
    let folder = Folder::new("traces");
    let file = folder.0.join("scenarios/test.toml");
    fs::write(&file, plain("rate = \"30 Mbit/s\"", "trace = \"up.trace\"")).unwrap();
    let missing = Scenario::load(&file, &[]).unwrap_err();
    assert_eq!(told(&missing).0, Mistake::Trace);
    assert_eq!((told(&missing).1, missing.reason.as_str()), (4, "trace `up.trace`: no such file"));

    // The folder above the scenario's is searched too.
    fs::write(folder.0.join("up.trace"), "1\n2\nthree\n").unwrap();
    let malformed = Scenario::load(&file, &[]).unwrap_err();
    assert_eq!(malformed.mistake, Mistake::Trace);
    assert!(malformed.reason.starts_with("trace `up.trace`: line 3: `three`"), "{malformed}");

    fs::write(folder.0.join("up.trace"), "1\n2\n3\n").unwrap();
    let first = Scenario::load(&file, &[]).unwrap();
    fs::write(folder.0.join("up.trace"), "1\n2\n4\n").unwrap();
    let second = Scenario::load(&file, &[]).unwrap();
    assert_ne!(first.hash(), second.hash(), "the content of a trace decides results");
}

#[test]
fn a_mistake_in_one_direction_is_shown_there() {
    let text = plain("\"5 Mbit/s\"", "\"0 Mbit/s\"");
    // `up` is the second of the two values in line 8.
    assert_eq!(
        told(&error(&text)),
        (
            Mistake::Value,
            8,
            35,
            "at this rate nothing is ever sent | raise it in `schedule`, leave the path out, or fail it with `present`"
                .to_owned()
        )
    );
}

#[test]
fn a_file_that_is_not_there() {
    let error = Scenario::load(&PathBuf::from("no-such-folder/x.toml"), &[]).unwrap_err();
    assert_eq!(error.mistake, Mistake::File);
}
