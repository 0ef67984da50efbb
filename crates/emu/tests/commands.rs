//! Commands run in a namespace, say how they ended, and leave nothing behind, whatever happens to their caller.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::{self, Child};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, killpg, sigaction};
use nix::unistd::Pid;
use weftway_emu::{Command, EmuError, Exit, Namespace, Running, spawn};

const SOON: Duration = Duration::from_secs(60);

/// Names the role and the script of a helper process, which is this program run anew.
const ROLE: &str = "WEFTWAY_TEST_ROLE";
const SCRIPT: &str = "WEFTWAY_TEST_SCRIPT";

fn namespace() -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn shell(script: &str) -> Command {
    Command { argv: ["sh", "-c", script].map(Into::into).to_vec(), ..Command::default() }
}

fn start(script: &str) -> Option<Running> {
    Some(spawn(&namespace()?, &shell(script)).unwrap())
}

fn exit(script: &str) -> Option<Exit> {
    Some(start(script)?.wait(SOON).expect("the command ends"))
}

/// A time to sleep that nobody else sleeps: 1000 s and a fraction of this process's and the call's own.
fn marker() -> String {
    static CALLS: AtomicU32 = AtomicU32::new(1);
    format!("1000.{:07}{:03}9", process::id(), CALLS.fetch_add(1, Ordering::Relaxed))
}

/// The processes that have `word` as an argument.
fn processes(word: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let has = |path: &PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    entries.filter(has).collect()
}

/// Number of processes that are in the network namespace that `file` is.
fn members(file: &File) -> usize {
    let inode = file.metadata().unwrap().ino();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter(|entry| fs::metadata(entry.path().join("ns/net")).is_ok_and(|other| other.ino() == inode)).count()
}

fn soon(what: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < SOON {
        if what() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}

/// What a command writes to a file whose path is in `OUT`.
fn output(script: &str) -> Option<String> {
    let path = std::env::temp_dir().join(format!("weftway-{}", marker()));
    let mut command = shell(&format!("{{ {script}; }} > \"$OUT\""));
    command.env.push(("OUT".to_owned(), path.to_str().unwrap().to_owned()));
    let exit = spawn(&namespace()?, &command).unwrap().wait(SOON);
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    assert_eq!(exit, Some(Exit::Code(0)));
    Some(text)
}

#[test]
fn a_code_is_the_commands_own() {
    for code in [0, 1, 7, 255] {
        let Some(exit) = exit(&format!("exit {code}")) else { return };
        assert_eq!(exit, Exit::Code(code));
    }
}

#[test]
fn a_signal_is_told_from_a_code() {
    // SIGKILL is 9 and SIGTERM 15; a shell whose child dies of SIGTERM returns 128 + 15.
    for (script, expected) in [
        ("kill -KILL $$", Exit::Signal(9)),
        ("kill $$", Exit::Signal(15)),
        ("sh -c 'kill $$'; exit $?", Exit::Code(143)),
    ] {
        let Some(exit) = exit(script) else { return };
        assert_eq!(exit, expected, "{script}");
    }
}

#[test]
fn the_environment_is_the_callers_and_more() {
    let Some(text) = output("echo \"${OUT##*/}\" | cut -c 1-8; test -n \"$PATH\" && echo path") else { return };
    assert_eq!(text, "weftway-\npath\n");
}

#[test]
fn a_command_sees_its_namespaces_only() {
    // Two lines of headings, then the loopback device; the shell is the second process, after init.
    let Some(text) = output("tail -n +3 /proc/net/dev | cut -d : -f 1; echo $$; ls /sys/class/net") else { return };
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["lo", "2", "lo"]);
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let Some(namespace) = namespace() else { return };
    let command = Command { argv: vec!["no-such-program".into()], ..Command::default() };
    let error = spawn(&namespace, &command).unwrap_err();
    assert!(matches!(&error, EmuError::Command { command, .. } if command == "no-such-program"), "{error}");
    assert!(matches!(spawn(&namespace, &Command::default()), Err(EmuError::Command { .. })));
}

#[test]
fn a_command_that_runs_has_no_exit() {
    let Some(mut running) = start("sleep 1000") else { return };
    assert_eq!(running.try_wait(), None);
    assert_eq!(running.wait(Duration::from_millis(20)), None);
}

/// A command with a daemon, which goes on until it is asked to end and then returns 4.
fn with_daemon(daemon: &str) -> String {
    format!("trap 'exit 4' TERM INT\n{daemon}\nwhile :; do sleep 0.02; done")
}

#[test]
fn daemons_end_with_the_command() {
    for daemon in ["sleep MARK &", "setsid sleep MARK &", "(setsid nohup sleep MARK 2>/dev/null >&2 &)"] {
        let mark = marker();
        let Some(mut running) = start(&with_daemon(&daemon.replace("MARK", &mark))) else { return };
        assert!(soon(|| processes(&mark).len() == 1), "`{daemon}` starts");
        assert_eq!(running.terminate(SOON), Exit::Code(4));
        assert!(processes(&mark).is_empty(), "`{daemon}` outlives the command");
    }
}

#[test]
fn a_command_that_will_not_end_is_killed_after_its_grace() {
    let mark = marker();
    let Some(mut running) = start(&format!("trap '' TERM; sleep {mark}; true")) else { return };
    assert!(soon(|| processes(&mark).len() == 1), "it starts");
    let start = Instant::now();
    assert_eq!(running.terminate(Duration::from_millis(100)), Exit::Signal(9));
    assert!((Duration::from_millis(100)..SOON).contains(&start.elapsed()));
    assert_eq!(running.terminate(SOON), Exit::Signal(9), "the end is kept");
    assert!(processes(&mark).is_empty());
}

#[test]
fn a_stopped_command_can_be_asked_to_end() {
    let mark = marker();
    let Some(mut running) = start(&with_daemon(&format!("sleep {mark} & kill -STOP $$"))) else { return };
    assert!(soon(|| processes(&mark).len() == 1), "it starts");
    assert_eq!(running.terminate(SOON), Exit::Code(4));
}

#[test]
fn what_is_dropped_is_killed_and_a_panic_drops() {
    let mark = marker();
    let Some(running) = start(&format!("sleep {mark} & sleep {mark}; true")) else { return };
    assert!(soon(|| processes(&mark).len() == 2), "both start");
    let work = move || {
        let _running = running;
        std::panic::resume_unwind(Box::new("a panic"));
    };
    let unwound = catch_unwind(std::panic::AssertUnwindSafe(work));
    assert!(unwound.is_err());
    assert!(processes(&mark).is_empty());
}

/// Not a test of its own: what this program does when another test runs it as a process of its own.
#[test]
fn helper() {
    let (Ok(role), Ok(script)) = (std::env::var(ROLE), std::env::var(SCRIPT)) else { return };
    extern "C" fn nothing(_: libc::c_int) {}
    // Whoever runs the tests in the background may have had it ignored, which is inherited.
    let handler = if role == "survive SIGINT" { SigHandler::Handler(nothing) } else { SigHandler::SigDfl };
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing.
    #[allow(unsafe_code)]
    unsafe { sigaction(Signal::SIGINT, &action) }.unwrap();
    let mut running = start(&script).expect("the caller has made a namespace");
    process::exit(running.wait(Duration::MAX).expect("it waits for as long as it takes").code());
}

/// Starts this program as the process above, leading a process group.
fn run_helper(role: &str, script: &str) -> Child {
    let mut helper = process::Command::new(std::env::current_exe().unwrap());
    helper.args(["helper", "--exact", "--nocapture"]).env(ROLE, role).env(SCRIPT, script).process_group(0);
    helper.stdout(process::Stdio::null()).spawn().unwrap()
}

/// A tree of three that sleep: a child, a daemon and a daemon's child.
fn tree(mark: &str) -> String {
    with_daemon(&format!("sleep {mark} & setsid sh -c 'sleep {mark} & sleep {mark}; true' &"))
}

#[test]
fn nothing_survives_a_caller_that_is_killed() {
    if namespace().is_none() {
        return;
    }
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT, Signal::SIGABRT] {
        let mark = marker();
        let mut helper = run_helper("wait", &tree(&mark));
        assert!(soon(|| processes(&mark).len() == 3), "the tree starts");
        // Held open, the namespace keeps its number, which no other can have then.
        let network = File::open(processes(&mark)[0].join("ns/net")).unwrap();
        assert!(members(&network) >= 5, "init, the shell and the tree are in it");
        nix::sys::signal::kill(Pid::from_raw(helper.id() as i32), signal).unwrap();
        assert_eq!(helper.wait().unwrap().signal(), Some(signal as i32));
        assert!(soon(|| processes(&mark).is_empty()), "{signal} leaves {:?}", processes(&mark));
        assert!(soon(|| members(&network) == 0), "{signal} leaves the namespace in use");
    }
}

/// The caller dies at one point or another of its start, before or after init knows of it.
#[test]
fn nothing_survives_a_caller_that_is_killed_early() {
    if namespace().is_none() {
        return;
    }
    let mark = marker();
    for delay in 0..40 {
        let mut helper = run_helper("wait", &tree(&mark));
        thread::sleep(Duration::from_micros(250 * delay));
        helper.kill().unwrap();
        helper.wait().unwrap();
    }
    assert!(soon(|| processes(&mark).is_empty()), "left: {:?}", processes(&mark));
    // What is left would show itself by starting the tree.
    thread::sleep(Duration::from_millis(200));
    assert!(processes(&mark).is_empty(), "left: {:?}", processes(&mark));
}

/// Ctrl-C goes to all of the terminal's foreground group.
#[test]
fn an_interrupt_of_the_group_reaches_the_command() {
    if namespace().is_none() {
        return;
    }
    let mark = marker();
    let mut helper = run_helper("survive SIGINT", &with_daemon(&format!("setsid sleep {mark} &")));
    assert!(soon(|| processes(&mark).len() == 1), "it starts");
    killpg(Pid::from_raw(helper.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(helper.wait().unwrap().code(), Some(4), "the command handles it, and its caller sees that");
    assert!(processes(&mark).is_empty());
}

#[test]
fn a_quiet_command_leaves_standard_output_alone() {
    let Some(namespace) = namespace() else { return };
    let mut command = shell("test /proc/self/fd/1 -ef /proc/self/fd/2");
    command.quiet = true;
    assert_eq!(spawn(&namespace, &command).unwrap().wait(SOON), Some(Exit::Code(0)));
}
