//! The routes of a tunnel that runs here: set, and taken back.

use std::io;
use std::path::Path;

use super::plan::{Need, Plan};
use super::state::{Changes, StateFile};
use super::{commands, settings};
use crate::failure::{Done, Failure, system_text};

/// The routes of a tunnel that runs here. There is one at a time.
pub struct Routes {
    state: StateFile,
    /// The kill switch as `nft` listed it when it was first set.
    closed: Option<String>,
}

impl Routes {
    /// The routes of this machine, unless another tunnel has them.
    pub fn open() -> Done<Self> {
        if !commands::is_there("ip") {
            return Err(Failure::input("weft tunnel needs the command `ip` (package iproute2)"));
        }
        Ok(Self { state: StateFile::open()?, closed: None })
    }

    /// Takes back what an earlier tunnel has left, if it has. With a kill switch nothing goes beside it any more.
    ///
    /// Returns what could not be taken back, for the user.
    pub fn begin(&mut self, plan: &Plan) -> Done<Option<String>> {
        if plan.kill_switch && !commands::is_there("nft") {
            return Err(Failure::input("--kill-switch needs the command `nft` (package nftables)"));
        }
        let before = self.state.read();
        let closed = before.as_ref().map_or(Some(false), |changes| changes.closed);
        let was_closed = closed != Some(false);
        let settings = before.as_ref().map(|changes| changes.settings.clone()).unwrap_or_default();
        let changes = Changes { settings, closed: Some(plan.kill_switch || was_closed) };
        self.state.write(&changes).map_err(|error| self.state.failure(&error))?;
        if plan.kill_switch {
            check("nft", self.close_off(plan))?;
        }
        if before.is_none() {
            return Ok(None);
        }
        let left = end_connections()?;
        commands::undo().map_err(|error| failed("ip", &error))?;
        if was_closed && !plan.kill_switch {
            commands::open_up(closed).map_err(|error| failed("nft", &error))?;
        }
        Ok(left)
    }

    /// Gives the device what it needs. Nothing goes there yet.
    pub fn prepare(&mut self, plan: &Plan) -> Done {
        check("ip", self.make(plan, &plan.addresses(&settings::families(&plan.device)), false))
    }

    /// Leads packets to the tunnel.
    pub fn apply(&mut self, plan: &Plan) -> Done {
        self.loosen().map_err(|error| self.state.failure(&error))?;
        check("ip", self.make(plan, &plan.routes(&settings::families(&plan.device)), false))
    }

    /// Makes these of the plan's addresses, routes and rules; returns what `ip` complained of.
    pub fn make(&mut self, plan: &Plan, needs: &[Need], force: bool) -> io::Result<String> {
        if needs.contains(&Need::Address(super::Family::V6)) {
            settings::switch_ipv6_on(&plan.device);
        }
        commands::make(plan, needs, force)
    }

    /// Has strict filters of sources let through what comes from the relay.
    pub fn loosen(&mut self) -> io::Result<()> {
        let Some((file, value)) = settings::strict_filter() else { return Ok(()) };
        let mut changes = self.state.read().unwrap_or_default();
        // Of a setting that another program has set again, the first value counts.
        changes.settings.entry(file.clone()).or_insert(value);
        self.state.write(&changes)?;
        settings::set(&file, settings::LOOSE);
        Ok(())
    }

    /// Sets the kill switch; returns what `nft` complained of.
    pub fn close_off(&mut self, plan: &Plan) -> io::Result<String> {
        let complaint = commands::nft(&plan.filter())?;
        // When it is set again, the first listing counts: another program may change it before it is listed, and what
        // that one has left would pass for whole.
        if self.closed.is_none() {
            self.closed = commands::listed_filter()?;
        }
        Ok(complaint)
    }

    /// Returns true if the kill switch is there as it was set.
    pub fn is_closed_off(&self) -> io::Result<bool> {
        Ok(self.closed.is_some() && self.closed == commands::listed_filter()?)
    }

    /// Takes everything back; returns true if there was anything. What fails does not keep the rest from being taken
    /// back.
    pub fn restore(&mut self) -> Done<bool> {
        let changes = self.state.read();
        let mut ended = Ok(());
        let mut go_on = |name, done: io::Result<()>| {
            if let (Ok(()), Err(error)) = (&ended, done) {
                ended = Err(failed(name, &error));
            }
        };
        if let Some(changes) = &changes {
            go_on("ss", commands::end_connections().map(drop));
            for (file, value) in &changes.settings {
                settings::set(file, value);
            }
            go_on("ip", commands::undo());
            if changes.closed != Some(false) {
                go_on("nft", commands::open_up(changes.closed));
            }
        }
        ended?;
        self.state.remove().map_err(|error| self.state.failure(&error))?;
        Ok(changes.is_some())
    }
}

/// Ends the TCP connections of programs that an earlier tunnel has carried; says which could not be ended, and why.
pub fn end_connections() -> Done<Option<String>> {
    commands::end_connections().map_err(|error| failed("ss", &error))
}

/// Has systemd-resolved, where it runs, ask the tunnel.
pub fn resolve_through(plan: &Plan) -> Done {
    commands::resolve_through(plan).map_err(|error| failed("resolvectl", &error))
}

/// Refuses the name of a device that is there: it is somebody else's.
pub fn check_free(device: &str) -> Done {
    if Path::new("/sys/class/net").join(device).exists() {
        return Err(Failure::input(format!("--device {device}: there is an interface of this name; name another one")));
    }
    Ok(())
}

/// A complaint fails the tunnel: its first line is told.
fn check(name: &str, complaint: io::Result<String>) -> Done {
    let complaint = complaint.map_err(|error| failed(name, &error))?;
    complaint.lines().next().map_or(Ok(()), |first| Err(Failure::run(format!("{name}: {first}"))))
}

/// A command that could not be started.
fn failed(name: &str, error: &io::Error) -> Failure {
    Failure::run(format!("{name}: {}", system_text(error)))
}
