//! Parts of a simulation: links, routes and connections.

use weftway_net::{AppData, Links, Route, controller, controller_setup};
use weftway_path::spec::SpecError;
use weftway_path::{Instant, PathId};
use weftway_scenario::config::{Bottlenecks, Direction, PathConfig, SimConfig, TransportConfig};
use weftway_scenario::mix;

use crate::connection::{Connection, Parts};
use crate::sender::PathSender;
use crate::wire::Datagram;

/// Builds links and routes of the connections.
pub(super) struct Layout {
    seed: u64,
    pub net: Links<Datagram>,
}

impl Layout {
    pub fn new(config: &SimConfig, seed: u64) -> Self {
        Self { seed, net: Links::new(config, seed) }
    }

    /// The half of a call that goes the other way: a connection of its own over the links of `forth`, each used in the
    /// other direction. Shared links and what is known of them are of the direction of the data of `forth` only.
    pub fn reverse(&self, forth: &Parts, data: AppData) -> Parts {
        let turn = |path: &PathConfig| PathConfig { data: path.acks.clone(), acks: path.data.clone(), ..path.clone() };
        let routes = forth.routes.iter().map(|route| Route { data: route.acks, acks: route.data, via: route.via });
        let mut transport = forth.transport.clone();
        transport.direction = match transport.direction {
            Direction::Upload => Direction::Download,
            Direction::Download => Direction::Upload,
        };
        if transport.bottlenecks == Bottlenecks::Given {
            transport.bottlenecks = Bottlenecks::None;
        }
        Parts {
            number: 1,
            transport,
            configs: forth.configs.iter().map(turn).collect(),
            routes: routes.collect(),
            cc_spec: forth.cc_spec.clone(),
            seed: mix(self.seed, 0xc1),
            clock: self.seed,
            data,
            write: forth.write,
            source: 0,
        }
    }

    pub fn connection(
        &mut self,
        number: u8,
        transport: &TransportConfig,
        paths: &[PathConfig],
        cc: &str,
        data: AppData,
    ) -> Parts {
        let routes = paths.iter().map(|path| self.net.add(number, path, transport.ecn)).collect();
        Parts {
            number,
            transport: transport.clone(),
            configs: paths.to_vec(),
            routes,
            cc_spec: cc.to_owned(),
            seed: mix(self.seed, 0xc0 + u64::from(number)),
            clock: self.seed,
            data,
            write: weftway_scenario::config::WRITE,
            source: 0,
        }
    }
}

/// A connection of these parts.
pub(super) fn build(parts: Parts) -> Result<Connection, SpecError> {
    let senders = parts
        .routes
        .iter()
        .enumerate()
        .map(|(at, route)| {
            let id = PathId::new(at as u8);
            let setup = controller_setup(&parts.transport, parts.seed, id);
            let cc = controller(&parts.cc_spec, &parts.transport, &setup)?;
            Ok(PathSender::new(id, route.data, cc, &parts.transport, parts.data.app.has_messages(), Instant::ZERO))
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Connection::new(parts, senders))
}
