//! Rules of connections: those of a file, and what one of them means for a connection.

use std::path::Path;

use weftway_relay::{Class, Classes, DEADLINE, Dscp, FIRST_BYTES, Target, Transport};

use crate::failure::{Done, Failure};
use crate::reading;

/// Stands before a mark behind a target.
const MARK: &str = ",dscp=";

/// The rules of a file, or those without a file.
pub fn read(file: Option<&Path>) -> Done<Classes> {
    let Some(file) = file else { return Ok(Classes::default()) };
    let text = reading::text(file)?;
    Classes::parse(&text).map_err(|error| Failure::input(format!("{}: {error}", file.display())))
}

/// Lines that say which rule decides for a connection to `target`, and what it is then.
///
/// The target is HOST:PORT, of datagrams udp:HOST:PORT. It may have a mark: `udp:192.0.2.7:3480,dscp=EF`.
pub fn explain(rules: &Classes, target: &str) -> Done<Vec<String>> {
    let (place, mark) = match target.split_once(MARK) {
        Some((place, mark)) => (place, read_mark(mark)?),
        None => (target, Dscp::NONE),
    };
    let (transport, host) = match place.strip_prefix("udp:") {
        Some(host) => (Transport::Udp, host),
        None => (Transport::Tcp, place),
    };
    let host: Target = host.parse().map_err(|error| Failure::input(format!("{place}: {error}")))?;
    let rule = rules.decide(transport, &host, mark);
    let (is_stream, is_marked) = (transport == Transport::Tcp, mark != Dscp::NONE);
    let name = rule.class.name();
    let over = if is_marked { format!("{transport} with DSCP {mark}") } else { transport.to_string() };
    let mut lines = vec![format!("{host} over {over} is {name}; the rule that decides is: {}", rule.name)];
    if is_marked {
        let packets = if is_stream { "the first packet of a connection" } else { "each packet" };
        lines.push(format!("  `weft tunnel` reads DSCP from {packets}; a program gives `weft proxy` none"));
    }
    if rule.class == Class::Bulk && is_stream {
        lines.push(format!("  its first {} KiB in each direction go as interactive", FIRST_BYTES >> 10));
    }
    lines.push(format!("  {name} {}", meaning(rule.class)));
    if !is_stream {
        let deadline = DEADLINE.as_millis_f64();
        lines.push(format!("  a datagram that has not left after {deadline} ms is dropped"));
    }
    Ok(lines)
}

fn read_mark(text: &str) -> Done<Dscp> {
    let told = |()| Failure::input(format!("dscp={text}: a mark is EF, CS5, AF41 and such, or a number from 0 to 63"));
    text.parse().map_err(told)
}

/// Turn of the connections of a class.
fn meaning(class: Class) -> &'static str {
    match class {
        Class::Realtime => "goes before all others; while others wait it has half of the connection's rate at most",
        Class::Interactive => {
            "goes after realtime and before bulk; while bulk waits it has half of what realtime leaves at most"
        }
        Class::Bulk => {
            "goes when no other class waits; while both always do it has a quarter of the connection's rate at least, and \
             half while one of them does"
        }
    }
}
