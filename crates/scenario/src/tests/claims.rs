//! Published numbers, claims and open values: what may be said, and what is refused.

use super::{PLAIN, parse};
use crate::{At, Claim, Status, Unit};

fn with(text: &str) -> String {
    format!("{PLAIN}[vary]\n\"path.lte.loss\" = [\"0 %\", \"1 %\"]\n{text}")
}

fn number(keys: &str) -> String {
    with(&format!("[published]\nvalues = [{{ {keys}, value = 2, unit = \"Mbit/s\", place = \"Table 1\" }}]\n"))
}

#[test]
fn a_published_number_says_what_it_is_of() {
    let text =
        number("metric = \"goodput_mbps\", scheduler = \"llhd\", cc = \"lia\", at = { \"path.lte.loss\" = \"1 %\" }");
    let published = parse(&text).unwrap().published.unwrap();
    let value = &published.values[0];
    assert_eq!((value.unit, value.status, value.value), (Unit::MbitPerSecond, Status::Printed, 2.0));
    assert_eq!(value.at, At::Setting([("path.lte.loss".to_owned(), "1 %".to_owned())].into()));
}

#[test]
fn names_that_nothing_has_are_refused() {
    let cases = [
        ("metric = \"goodput_mbit\"", "unknown metric `goodput_mbit`", "did you mean `goodput_mbps`?"),
        ("metric = \"goodput_mbps\", scheduler = \"lhd\"", "lhd", "did you mean `llhd`?"),
        ("metric = \"goodput_mbps\", cc = \"liaa\"", "liaa", "did you mean `lia`?"),
        (
            "metric = \"goodput_mbps\", at = { \"path.lte.los\" = \"1 %\" }",
            "varied key",
            "did you mean `path.lte.loss`?",
        ),
        (
            "metric = \"goodput_mbps\", at = { \"path.lte.loss\" = \"2 %\" }",
            "value of `path.lte.loss`",
            "did you mean `0 %`?",
        ),
        ("metric = \"goodput_mbps\", schedular = \"llhd\"", "unknown key `schedular`", "did you mean `scheduler`?"),
        ("scheduler = \"llhd\"", "either `metric` or", ""),
    ];
    for (keys, reason, help) in cases {
        let error = parse(&number(keys)).expect_err(keys);
        assert!(error.reason.contains(reason), "{error}");
        if !help.starts_with("did you mean `0") {
            assert!(error.help.as_deref().unwrap_or_default().contains(help), "{error}");
        }
        assert!(error.place.is_some(), "{error}");
    }
}

#[test]
fn every_kind_of_claim_is_read_and_checked() {
    let kinds = [
        "kind = \"rank\"\nmetric = \"fct_ms\"\nbetter = [\"llhd\"]\nworse = [\"ecf\"]\nall_pairs = true\nat = \"each\"",
        "kind = \"order\"\nmetric = \"fct_ms\"\norder = [\"llhd\", \"ecf\"]\ncc = \"lia\"",
        "kind = \"ratio\"\nmetric = \"fct_ms\"\nof = \"llhd\"\nover = \"ecf\"\nvalue = 1.3\nover_file = \"other.toml\"",
        "kind = \"near\"\nmetric = \"fct_ms\"\ntolerance = \"5 %\"",
        "kind = \"monotone\"\nmetric = \"fct_ms\"\nalong = \"path.lte.loss\"\ngoes = \"rises\"",
        "kind = \"bound\"\nmetric = \"fct_ms\"\nmax = 3",
        "kind = \"schedule\"\nof = \"min-rtt\"\nsends = { wifi = [1, 3], lte = [2] }",
        "kind = \"identical\"\nof = \"min-rtt\"\nover = \"llhd\"",
    ];
    for kind in kinds {
        let claim = |kind: &str| with(&format!("[expect.it]\nclaim = \"so\"\n{kind}\n"));
        assert_eq!(parse(&claim(kind)).unwrap_or_else(|error| panic!("{error}")).claims.len(), 1);
        let wrong = kind.replace("fct_ms", "fct").replace("wifi", "wlan").replace("over = \"llhd\"", "over = \"lld\"");
        let error = parse(&claim(&wrong)).expect_err(kind);
        assert!(error.place.is_some(), "{error}");
    }
}

#[test]
fn a_ratio_without_a_tolerance_has_none() {
    let text = with(
        "[expect.gain]\nkind = \"ratio\"\nclaim = \"so\"\nmetric = \"fct_ms\"\nof = \"llhd\"\nover = \"ecf\"\nvalue = 1.3\n",
    );
    let Claim::Ratio { tolerance, .. } = parse(&text).unwrap().claims.remove(0).1 else { panic!("a ratio") };
    assert_eq!(tolerance, None);
}

#[test]
fn an_open_value_has_choices_and_a_reason() {
    let open = |key: &str, values: &str, why: &str| {
        parse(&with(&format!("[uncertain.\"{key}\"]\nvalues = {values}\nwhy = \"{why}\"\n")))
    };
    open("path.wifi.queue", "[\"50 packets\", \"100 packets\"]", "not given").unwrap();
    open(
        "path.wifi.queue, path.lte.queue",
        "[[\"50 packets\", \"50 packets\"], [\"1 packets\", \"2 packets\"]]",
        "open",
    )
    .unwrap();
    for (key, values, why) in [
        ("path.wlan.queue", "[\"50 packets\", \"100 packets\"]", "not given"),
        ("path.wifi.queue", "[\"50 packets\"]", "not given"),
        ("path.wifi.queue", "\"50 packets\"", "not given"),
        ("path.wifi.queue", "[\"50 packets\", \"100 packets\"]", ""),
        ("path.wifi.queue, path.lte.queue", "[[\"50 packets\"], [\"1 packets\"]]", "open"),
    ] {
        let error = open(key, values, why).expect_err(values);
        assert!(error.place.is_some(), "{error}");
    }
}

/// More open values, claims and numbers can be added to results that exist.
#[test]
fn what_is_said_about_runs_does_not_change_their_identity() {
    let text = with("[uncertain.\"path.wifi.queue\"]\nvalues = [\"1 packets\", \"2 packets\"]\nwhy = \"open\"\n");
    assert_eq!(parse(&text).unwrap().hash(), parse(&with("")).unwrap().hash());
}
