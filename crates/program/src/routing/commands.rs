//! Commands of the system: `ip`, `nft`, `ss`, `resolvectl`.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;

use super::plan::{self, Need, Plan};
use super::{FILTER, Family, RESOLVER};

/// Time that a call of `resolvectl` has: it waits far longer for a service that does not answer, and no signal ends the
/// tunnel meanwhile.
const RESOLVECTL: Duration = Duration::from_secs(5);
/// Time between two looks at a command that has a limit.
const LOOK: Duration = Duration::from_millis(10);

/// A command that has ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// True if it said that it worked.
    pub worked: bool,
    /// Standard output.
    pub stdout: String,
    /// Its complaint if it failed: standard error without spaces at both ends, or its status.
    pub complaint: String,
}

/// Returns true if there is a program of this name.
pub fn is_there(name: &str) -> bool {
    let is_program =
        |file: &Path| file.metadata().is_ok_and(|known| known.is_file() && known.permissions().mode() & 0o111 != 0);
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| is_program(&folder.join(name))))
}

/// A command. It is of a group of its own: Ctrl-C at a terminal does not end it half-way. What systemd is told of is
/// this program.
fn command(name: &str, words: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(words).process_group(0).env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    command
}

/// Runs a command, which reads `input`.
pub fn run(name: &str, words: &[&str], input: &str) -> io::Result<Ended> {
    let mut file = File::from(rustix::fs::memfd_create("weft", MemfdFlags::CLOEXEC)?);
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    let done = command(name, words).stdin(Stdio::from(file)).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    let complaint = match (done.status.success(), said.trim()) {
        (true, _) => String::new(),
        (false, "") => done.status.to_string(),
        (false, said) => said.to_owned(),
    };
    Ok(Ended { worked: done.status.success(), stdout: String::from_utf8_lossy(&done.stdout).into_owned(), complaint })
}

/// Runs a command without input and output; returns false if it had to be killed when its time was over.
fn ends_within(limit: Duration, name: &str, words: &[&str]) -> io::Result<bool> {
    let until = Instant::now() + limit;
    let null = Stdio::null;
    let mut child = command(name, words).stdin(null()).stdout(null()).stderr(null()).spawn()?;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
    Ok(true)
}

/// Has `ip` make these things; returns its complaints. It stops at the first that it cannot make, unless it is forced.
pub fn make(plan: &Plan, needs: &[Need], force: bool) -> io::Result<String> {
    let lines: Vec<_> = needs.iter().filter_map(|need| Some((need.family(), need.line(plan)?))).collect();
    let mut complaints = Vec::new();
    for group in lines.chunk_by(|(one, _), (next, _)| one == next) {
        let texts: Vec<_> = group.iter().map(|(_, line)| line.as_str()).collect();
        let complaint = batch(group[0].0, &texts, force)?;
        if !complaint.is_empty() {
            complaints.push(complaint);
            if !force {
                break;
            }
        }
    }
    Ok(complaints.join("\n"))
}

/// Takes routes and rules back. Nothing is said of those that are not there.
pub fn undo() -> io::Result<()> {
    let lines = plan::undo();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    Family::ALL.into_iter().try_for_each(|family| batch(Some(family), &lines, true).map(drop))
}

fn batch(family: Option<Family>, lines: &[&str], force: bool) -> io::Result<String> {
    let option = family.map(Family::option);
    let force = force.then_some("-force");
    let words: Vec<_> = [option, force, Some("-batch"), Some("-")].into_iter().flatten().collect();
    Ok(run("ip", &words, &(lines.join("\n") + "\n"))?.complaint)
}

/// Asks `ip` for what it shows of a family, a line of JSON for each question. It goes on after those that have no
/// answer.
pub fn ask(family: Family, questions: &[String]) -> io::Result<Ended> {
    run("ip", &[family.option(), "-json", "-N", "-force", "-batch", "-"], &(questions.join("\n") + "\n"))
}

/// Has `nft` carry out this; returns its complaint.
pub fn nft(text: &str) -> io::Result<String> {
    Ok(run("nft", &["-f", "-"], text)?.complaint)
}

/// Takes the kill switch away, if there is one. If there certainly is, it fails without `nft`; it fails if the table
/// stays.
pub fn open_up(closed: Option<bool>) -> io::Result<()> {
    open_up_by("nft", closed)
}

fn open_up_by(nft: &str, closed: Option<bool>) -> io::Result<()> {
    if !is_there(nft) {
        let why = "the kill switch stays: there is no command `nft` (package nftables)";
        return if closed == Some(true) { Err(io::Error::other(why)) } else { Ok(()) };
    }
    let ended = run(nft, &["-f", "-"], &format!("delete table {FILTER}\n"))?;
    // It complains of a table that is not there, too.
    if ended.worked || listed_by(nft)?.is_none() {
        return Ok(());
    }
    let first = ended.complaint.lines().next().unwrap_or_default();
    Err(io::Error::other(format!("the kill switch stays: {first}")))
}

/// The kill switch as `nft` lists it, if it is there.
pub fn listed_filter() -> io::Result<Option<String>> {
    listed_by("nft")
}

fn listed_by(nft: &str) -> io::Result<Option<String>> {
    let words: Vec<_> = ["list", "table"].into_iter().chain(FILTER.split(' ')).collect();
    let listed = run(nft, &words, "")?;
    Ok(Some(listed.stdout).filter(|_| listed.worked))
}

/// Ends the TCP connections of programs that an earlier tunnel has carried; says which could not be ended, and why.
///
/// They have its address. A program that only receives would wait for ever: it sends nothing that could be answered
/// with a reset.
pub fn end_connections() -> io::Result<Option<String>> {
    if !is_there("ss") {
        let text = "connections of an earlier tunnel are not ended: that needs the command `ss` (package iproute2)";
        return Ok(Some(text.to_owned()));
    }
    let v6 = format!("[{}]", Family::V6.address());
    let own = ["(", "src", Family::V4.address(), "or", "src", v6.as_str(), ")"];
    let which = ["--numeric", "--tcp", "state", "connected", "exclude", "time-wait"];
    run("ss", &[&["--kill"], &which[..], &own].concat(), "")?;
    // It says nothing of those that it could not end.
    let left = run("ss", &[&["--no-header"], &which[..], &own].concat(), "")?.stdout.lines().count();
    let why = "that needs a kernel with CONFIG_INET_DIAG_DESTROY";
    Ok((left > 0).then(|| format!("{left} connections of an earlier tunnel are not ended: {why}")))
}

/// Has systemd-resolved, where it runs, ask the tunnel: it binds its questions to devices, past all rules. It forgets
/// that with the device.
pub fn resolve_through(plan: &Plan) -> io::Result<()> {
    let is_general = plan.names && plan.only.is_empty();
    if !is_general || !is_there("resolvectl") || !Path::new("/run/systemd/resolve/resolv.conf").exists() {
        return Ok(());
    }
    let (device, resolver) = (plan.device.as_str(), RESOLVER.to_string());
    for words in [["dns", device, resolver.as_str()], ["domain", device, "~."], ["default-route", device, "yes"]] {
        if !ends_within(RESOLVECTL, "resolvectl", &words)? {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_its_input_and_says_why_it_failed() {
        let ended = run("sh", &["-c", "cat; echo trouble >&2; exit 3"], "hello").unwrap();
        assert_eq!((ended.worked, ended.stdout.as_str(), ended.complaint.as_str()), (false, "hello", "trouble"));
        assert_eq!(run("sh", &["-c", "exit 3"], "").unwrap().complaint, "exit status: 3");
        assert_eq!(run("sh", &["-c", "echo note >&2"], "").unwrap().complaint, "");
        assert!(run("no-such-program", &[], "").is_err());
        assert!(is_there("sh") && !is_there("no-such-program"));
    }

    #[test]
    fn a_kill_switch_that_stays_is_no_success() {
        for closed in [None, Some(true)] {
            assert!(open_up_by("true", closed).is_ok(), "it is taken away");
            assert!(open_up_by("false", closed).is_ok(), "it is not there");
            // This one refuses `-f -`, and answers `list table inet weft_tunnel`.
            let stays = open_up_by("dirname", closed).unwrap_err().to_string();
            assert!(stays.starts_with("the kill switch stays: dirname: "), "{stays}");
        }
        assert!(open_up_by("no-such-program", None).is_ok(), "nobody knows of one");
        assert!(open_up_by("no-such-program", Some(true)).is_err());
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        assert!(ends_within(Duration::from_secs(60), "false", &[]).unwrap());
        assert!(!ends_within(Duration::from_millis(50), "sleep", &["60"]).unwrap());
    }
}
