use super::*;

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn unit(verb: &str, options: &[&str], files: &[(&'static str, PathBuf)], manager: Manager<'_>) -> Vec<String> {
    let (program, folder) = (Path::new("/usr/bin/weft-link"), Path::new("/home/me"));
    let unit = Run { program, verb, options: &words(options), folder, files }.unit(manager);
    unit.lines().map(str::to_owned).collect()
}

fn has(unit: &[String], line: &str) -> bool {
    unit.iter().any(|one| one == line)
}

const RELAY: [&str; 4] = ["--listen", "4433", "--identity", "a file"];

#[test]
fn words_of_a_command_line_are_as_systemd_reads_them() {
    for (word, expected) in [
        ("--listen", "--listen"),
        ("wlan0,tier=backup", "wlan0,tier=backup"),
        ("100%", "100%%"),
        ("$HOME", "$$HOME"),
        ("two words", r#""two words""#),
        (r#"a "b" \"#, r#""a \"b\" \\""#),
        ("a;b", r#""a;b""#),
        ("", r#""""#),
    ] {
        assert_eq!(quoted(word), expected);
    }
}

#[test]
fn a_unit_of_the_system_has_a_user_of_its_own_and_its_files_from_systemd() {
    let files = [("pair", PathBuf::from("/home/me/a 100% line")), ("passwords", PathBuf::from("/etc/weft/passwords"))];
    let options = ["--pair", "line", "--to", "192.0.2.1", "--passwords=mine", "--path", "wlan0"];
    let lines = unit("proxy", &options, &files, Manager::System);
    for line in [
        "ExecStart=/usr/bin/weft-link proxy --to 192.0.2.1 --path wlan0 --pair %d/pair --passwords %d/passwords",
        "LoadCredential=pair:/home/me/a 100%% line",
        "LoadCredential=passwords:/etc/weft/passwords",
        "DynamicUser=yes",
        "WorkingDirectory=/",
        "PrivateUsers=yes",
        "ProtectSystem=strict",
        "SystemCallFilter=~@privileged @resources",
        "RuntimeDirectory=%p",
        "WantedBy=multi-user.target",
    ] {
        assert!(has(&lines, line), "{line}\n{lines:#?}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("User=")));
    let tunnel = unit("tunnel", &options, &files, Manager::System);
    assert!(["User=root", "MemoryMax=75%", "RuntimeDirectoryPreserve=yes"].iter().all(|line| has(&tunnel, line)));
    let refused = ["DynamicUser=yes", "PrivateUsers=yes", "SystemCallFilter=~@privileged @resources"];
    assert!(!refused.iter().any(|line| has(&tunnel, line)), "it changes routes");
}

#[test]
fn where_the_program_is_closed_to_others_the_unit_is_of_who_asks() {
    let files = [("identity", PathBuf::from("/home/me/identity.json"))];
    let manager = Manager::SystemAs { user: "me", closed: Path::new("/home/me") };
    let lines = unit("relay", &["--identity", "mine"], &files, manager);
    for line in [
        "User=me",
        "# As you: /home/me is closed to others. A program that is for all has a user of its own.",
        "ExecStart=/usr/bin/weft-link relay --identity mine",
        "WorkingDirectory=/home/me",
    ] {
        assert!(has(&lines, line), "{line}\n{lines:#?}");
    }
    assert!(!has(&lines, "DynamicUser=yes"));
}

#[test]
fn a_unit_of_a_user_needs_no_rights() {
    let lines = unit("relay", &RELAY, &[], Manager::User);
    assert!(has(&lines, r#"ExecStart=/usr/bin/weft-link relay --listen 4433 --identity "a file""#));
    assert!(has(&lines, "StateDirectory=weftway") && has(&lines, "WantedBy=default.target"));
    assert!(!lines.iter().any(|line| line.starts_with("User=") || line.starts_with("Protect")));
}

#[test]
fn systemd_takes_the_unit() {
    for (verb, manager) in [("relay", Manager::System), ("relay", Manager::User), ("tunnel", Manager::System)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(format!("weft-{verb}.service"));
        // systemd asks for a program that is there.
        let program = std::env::current_exe().unwrap();
        let options = words(&RELAY);
        let run = Run { program: &program, verb, options: &options, folder: folder.path(), files: &[] };
        std::fs::write(&file, run.unit(manager)).unwrap();
        let mut verify = std::process::Command::new("systemd-analyze");
        verify.args((manager == Manager::User).then_some("--user")).arg("verify").arg(&file);
        let Ok(told) = verify.env("XDG_RUNTIME_DIR", folder.path()).output() else {
            return; // systemd-analyze is not here
        };
        let said = String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).into_owned();
        assert!(!said.contains(&format!("weft-{verb}.service")), "{said}");
    }
}
