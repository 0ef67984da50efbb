//! A unit of systemd: its text, and the words of a command line in it.

use std::path::{Path, PathBuf};

/// A program that has not said for so long that it is alive is started again. It says so twice as often.
const WATCHDOG_S: u32 = 30;

/// Settings that a user's service manager knows, too: it needs no namespaces.
const COMMON: &str = "\
# A program that takes more is ended and started again; the rest of the machine goes on.
MemoryMax=75%
LimitNOFILE=65536
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
";

const OF_SYSTEM: &str = "\
ProtectSystem=strict
ProtectHome=read-only
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
PrivateTmp=yes
";

/// A tunnel needs some of these calls: it changes routes.
const FEW_CALLS: &str = "\
SystemCallFilter=~@privileged @resources
";

const WITHOUT_DEVICES: &str = "\
CapabilityBoundingSet=
PrivateUsers=yes
ProcSubset=pid
ProtectKernelTunables=yes
PrivateDevices=yes
";

/// A tunnel makes a device and routes; it writes what it has changed into a folder of /run that stays when it ends.
const OF_TUNNEL: &str = "\
CapabilityBoundingSet=CAP_NET_ADMIN
DevicePolicy=closed
DeviceAllow=/dev/net/tun rw
";

/// Whom a unit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager<'a> {
    /// The service manager of a user.
    User,
    /// The system's. The program runs as a user of its own.
    System,
    /// The system's. The program runs as this user: others cannot enter the folder in which it is.
    SystemAs {
        /// User who asks for the unit.
        user: &'a str,
        /// The folder that is closed to others.
        closed: &'a Path,
    },
}

/// Command that a unit runs.
#[derive(Debug)]
pub struct Run<'a> {
    /// The file of this program.
    pub program: &'a Path,
    /// The verb.
    pub verb: &'a str,
    /// The verb's options.
    pub options: &'a [String],
    /// Folder where files of these options are looked for.
    pub folder: &'a Path,
    /// The files of these options, by the option's name.
    pub files: &'a [(&'static str, PathBuf)],
}

impl Run<'_> {
    /// The unit.
    ///
    /// One of the system runs as a user of its own, and has the files of its options as credentials of systemd.
    /// A tunnel is root's; and where this program is not for all users, it runs as the one who asks.
    pub fn unit(&self, manager: Manager<'_>) -> String {
        let is_of_user = manager == Manager::User;
        let mut lines = vec![
            "[Unit]".to_owned(),
            format!("Description={}", description(self.verb)),
            "Wants=network-online.target".to_owned(),
            "After=network-online.target".to_owned(),
            String::new(),
            "[Service]".to_owned(),
        ];
        lines.extend(self.service(manager));
        lines.push(String::new());
        lines.push(self.hardening(is_of_user).trim_end().to_owned());
        lines.push(String::new());
        lines.push("[Install]".to_owned());
        lines.push(format!("WantedBy={}", if is_of_user { "default.target" } else { "multi-user.target" }));
        lines.join("\n") + "\n"
    }

    fn service(&self, manager: Manager<'_>) -> Vec<String> {
        let is_of_user = manager == Manager::User;
        let has_user_of_its_own = manager == Manager::System && self.verb != "tunnel";
        let (command, folder) = if has_user_of_its_own {
            (self.with_credentials(), Path::new("/"))
        } else {
            (self.command(self.options), self.folder)
        };
        let mut lines = vec![
            "Type=notify".to_owned(),
            format!("ExecStart={command}"),
            format!("WorkingDirectory={}", escaped(&folder.display().to_string())),
            "# As Ctrl-C: the other end is told, and links with a cap are counted to the byte.".to_owned(),
            "KillSignal=SIGINT".to_owned(),
            "SuccessExitStatus=130".to_owned(),
            "Restart=always".to_owned(),
            "RestartSec=5".to_owned(),
            "# Status 2: an option that makes no sense, which no new start mends. What may pass has another status."
                .to_owned(),
            "RestartPreventExitStatus=2".to_owned(),
            format!("WatchdogSec={WATCHDOG_S}"),
        ];
        lines.extend(self.user(manager));
        lines.push(
            "# What links with a cap have carried is kept in weftway/usage.json in the folder of states.".to_owned(),
        );
        lines.push("StateDirectory=weftway".to_owned());
        if !is_of_user {
            // The last two: where `weft top` finds it.
            let more =
                ["Environment=XDG_STATE_HOME=/var/lib", "RuntimeDirectory=%p", "Environment=XDG_RUNTIME_DIR=/run/%p"];
            lines.extend(more.map(str::to_owned));
        }
        if self.verb == "tunnel" {
            // What is to be taken back after a tunnel that was killed.
            lines.extend(["RuntimeDirectory=weftway", "RuntimeDirectoryPreserve=yes"].map(str::to_owned));
        }
        lines
    }

    /// Whose the program is.
    fn user(&self, manager: Manager<'_>) -> Vec<String> {
        match manager {
            Manager::User => Vec::new(),
            _ if self.verb == "tunnel" => vec!["User=root".to_owned()],
            Manager::SystemAs { user, closed } => vec![
                format!(
                    "# As you: {} is closed to others. A program that is for all has a user of its own.",
                    escaped(&closed.display().to_string())
                ),
                format!("User={user}"),
            ],
            Manager::System => {
                let mut lines = vec!["DynamicUser=yes".to_owned()];
                if !self.files.is_empty() {
                    lines.push("# They are read when it starts: start it again when one has changed.".to_owned());
                }
                let load = |(name, file): &(&str, PathBuf)| {
                    format!("LoadCredential={name}:{}", escaped(&file.display().to_string()))
                };
                lines.extend(self.files.iter().map(load));
                lines
            }
        }
    }

    fn hardening(&self, is_of_user: bool) -> String {
        let is_tunnel = self.verb == "tunnel";
        let calls = if is_tunnel { "" } else { FEW_CALLS };
        let (of_system, of_verb) = match (is_of_user, is_tunnel) {
            (true, _) => ("", ""),
            (false, true) => (OF_SYSTEM, OF_TUNNEL),
            (false, false) => (OF_SYSTEM, WITHOUT_DEVICES),
        };
        [COMMON, calls, of_system, of_verb].concat()
    }

    fn command(&self, options: &[String]) -> String {
        let program = self.program.display().to_string();
        let words = [program.as_str(), self.verb].into_iter().chain(options.iter().map(String::as_str));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// The command with files in the folder of credentials, %d. `quoted` would write that as a percent sign.
    fn with_credentials(&self) -> String {
        let command = self.command(&without(self.options, self.files));
        self.files.iter().fold(command, |command, (name, _)| format!("{command} --{name} %d/{name}"))
    }
}

fn description(verb: &str) -> &'static str {
    match verb {
        "proxy" => "Connections of programs over several links (weft proxy)",
        "relay" => "The end of weft proxy that has one good link (weft relay)",
        "pipe" => "Datagrams over several links in a given time (weft pipe)",
        _ => "All traffic over several links (weft tunnel)",
    }
}

/// The options but those of these files, which have a value each.
fn without(options: &[String], files: &[(&'static str, PathBuf)]) -> Vec<String> {
    let (mut left, mut words) = (Vec::new(), options.iter());
    while let Some(word) = words.next() {
        let (name, is_whole) = match word.split_once('=') {
            Some((name, _)) => (name, true),
            None => (word.as_str(), false),
        };
        if !files.iter().any(|(file, _)| name.strip_prefix("--") == Some(file)) {
            left.push(word.clone());
        } else if !is_whole {
            words.next();
        }
    }
    left
}

/// A text in which systemd replaces nothing.
fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}

/// A word of a command line, as systemd reads it (systemd.service(5)).
fn quoted(word: &str) -> String {
    let text = escaped(word).replace('$', "$$");
    let is_plain = |one: char| one.is_alphanumeric() || "_@%+=:,./$-".contains(one);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests;
