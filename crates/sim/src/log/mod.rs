//! Listeners that keep what a run did: a [`Timeline`] for charts, a [`GoldenTrace`] for people and
//! for tests, a [`Qlog`] for the tools of the QUIC world.
//!
//! Each is handed to [`Sim::listen`](crate::Sim::listen) inside an `Arc<Mutex<_>>`, and looked at
//! when the run is over:
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use weftway_path::{Bytes, Role};
//! use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig};
//! use weftway_sim::{Host, Sim, log::GoldenTrace, run};
//!
//! let path = |name: &str| PathConfig {
//!     name: name.to_owned(),
//!     role: Role::Active,
//!     data: Default::default(),
//!     acks: Default::default(),
//!     via: None,
//!     presence: Vec::new(),
//! };
//! let config = SimConfig::new(TransportConfig::mpquic(), vec![path("wifi"), path("lte")], Bytes::new(5000));
//! let mut sim = Sim::new(&config, "cubic", 1).unwrap();
//! let mut scheduler = weftway_sched::build("min-rtt").unwrap();
//! sim.host(0, Host::of("min-rtt").unwrap());
//! let trace = Arc::new(Mutex::new(GoldenTrace::new(Vec::new(), [("title", "five packets")])));
//! sim.listen(Box::new(trace.clone()));
//! run::drive(&mut sim, &mut [scheduler.as_mut()]);
//! let mut trace = trace.lock().unwrap();
//! let text = String::from_utf8_lossy(trace.finish().unwrap());
//! assert!(text.contains("# title: five packets"));
//! ```

mod golden;
mod qlog;
mod timeline;

pub use golden::GoldenTrace;
pub use qlog::Qlog;
pub use timeline::Timeline;
