//! Paths that the scenario adds and removes.

use weftway_path::{Instant, PathSet};

use super::World;

impl World {
    /// Paths that the scenario adds or removes now.
    pub(super) fn look_at_presence(&mut self) {
        let now = self.now;
        let present = self.paths().filter(|id| weftway_net::is_present(&self.config.paths[id.index()], now));
        let present = present.fold(PathSet::EMPTY, PathSet::with);
        self.presence_at = weftway_net::next_presence(&self.config.paths, now);
        let before = std::mem::replace(&mut self.network.present, present);
        let keep_after = self.config.transport.probe_interval;
        for id in self.paths().filter(|&id| before.contains(id) != present.contains(id)) {
            let Some(sender) = &mut self.sending.sender else { continue };
            if present.contains(id) {
                sender.revive_path(now, id);
            } else {
                sender.remove_path(now, id);
            }
        }
        let upload = self.upload();
        let client = if upload {
            self.sending.sender.as_mut().map(|sender| &mut sender.connection)
        } else {
            self.receiving.connection.as_mut()
        };
        match client {
            Some(client) => {
                client.keep(now, present, keep_after);
                client.flush(now);
            }
            // The connection waits for its first path.
            None if !present.is_empty() && self.now > Instant::ZERO => {
                if let Err(error) = self.start() {
                    self.error.get_or_insert(error);
                }
            }
            None => {}
        }
        self.put_out(!upload);
        self.put_out(upload);
        if let Some(connection) = &self.receiving.connection {
            self.receiving.next = connection.timeout().max(now);
        }
    }
}
