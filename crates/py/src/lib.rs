//! `weftway._native`: what Python sees of the simulator. Private; the package `weftway` is the
//! public face.

mod batch;
mod dataset;
#[cfg(target_os = "linux")]
mod emulate;
mod errors;
mod job;
#[cfg(target_os = "linux")]
mod kernel;
mod live;
mod log;
mod policy;
mod registry;
mod rule;
mod scenario;
mod shown;
#[cfg(target_os = "linux")]
mod steer;
mod threads;
mod vector_env;
mod view;

use pyo3::prelude::*;

/// The Rust half of the package `weftway`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::dataset::labels;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::emulate::{Emulation, probe};
    #[pymodule_export]
    use super::errors::{EmulationError, ScenarioError, SimulationError, TraceError};
    #[pymodule_export]
    use super::job::{
        arrival_inputs, arrivals, bounds, clairvoyants, controlled, demonstrations, load_picoquic, oracles,
    };
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::kernel::KernelBatch;
    #[pymodule_export]
    use super::live::{live_bytes, live_row};
    #[pymodule_export]
    use super::log::{record, timeline};
    #[pymodule_export]
    use super::policy::Policy;
    #[pymodule_export]
    use super::registry::{behind_gate, controller, controllers, observed, scheduler, schedulers, tasks};
    #[pymodule_export]
    use super::rule::{Ahead, Recall, Repeat};
    #[pymodule_export]
    use super::scenario::{
        ScenarioView, VariantView, columns_of_results, drive_runs, options, read_again, schema, units, variant_again,
    };
    #[pymodule_export]
    use super::shown::{shown_run, thinned};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::steer::{LiveSteering, SteeredRun, steering_obstacle};
    #[pymodule_export]
    use super::vector_env::VectorEnv;
    #[pymodule_export]
    use super::view::{ContextView, EventView, FlowView, PacketView, PathView};

    /// The version.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the Python name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// The version and a hash of the sources that decide results.
    #[pymodule_export]
    const CODE: &str = env!("WEFTWAY_CODE");

    /// Hash of the sources that decide results on QUIC.
    #[pymodule_export]
    const QUIC_CODE: &str = env!("WEFTWAY_QUIC_CODE");

    /// Hash of the sources that decide results on picoquic, besides picoquic.
    #[pymodule_export]
    const PICOQUIC_CODE: &str = env!("WEFTWAY_PICOQUIC_CODE");

    /// Hash of the sources that decide what the kernel is asked to do.
    #[pymodule_export]
    const KERNEL_CODE: &str = env!("WEFTWAY_KERNEL_CODE");
}
