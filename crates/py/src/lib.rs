//! `weftway._native`: what Python sees of the simulator. Private; the package `weftway` is the
//! public face.

mod batch;
mod errors;
mod job;
mod log;
mod registry;
mod rule;
mod scenario;
mod vectors;
mod view;

use pyo3::prelude::*;

/// The Rust half of the package `weftway`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::errors::{ScenarioError, SimulationError, TraceError};
    #[pymodule_export]
    use super::log::{record, timeline};
    #[pymodule_export]
    use super::registry::{controller, controllers, scheduler, schedulers};
    #[pymodule_export]
    use super::rule::{Ahead, Repeat};
    #[pymodule_export]
    use super::scenario::{ScenarioView, VariantView};
    #[pymodule_export]
    use super::vectors::run_vectors;
    #[pymodule_export]
    use super::view::{ContextView, EventView, FlowView, PacketView, PathView};

    /// The version.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the Python name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// The version and a hash of the sources that decide results.
    #[pymodule_export]
    const CODE: &str = env!("WEFTWAY_CODE");
}
