//! IP packets of local programs over several links, for Python.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use weftway_transfer::{Options, Progress, tunnel};
use weftway_tunnel::{Names, TunDevice};

use crate::errors::Error;
use crate::transfer::{go_on, other_end, read_classes, read_links, socket_address, told};

/// A network device whose packets this program takes. It goes away with its last reference, or when it has been carried.
#[pyclass(frozen, module = "weftway._native")]
pub struct Tun {
    device: Mutex<Option<weftway_emu::Tun>>,
}

#[pymethods]
impl Tun {
    /// Makes the device `name`.
    #[new]
    fn new(name: &str) -> Result<Self, Error> {
        Ok(Self { device: Mutex::new(Some(weftway_emu::Tun::offloading(name)?)) })
    }
}

/// Carries what the packets of `device` hold to a relay at one of `addresses`, until it is stopped; each has `mtu` bytes
/// at most. If another program deletes the device, it is made again, without addresses.
/// `names` says who answers questions to servers of names that no relay asks: nobody, the server that the `relay` asks, or the one
/// at this address and port. What `watch` returns are the names of schedulers that take over. The other arguments are those of a proxy.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "keywords on the Python side")]
pub fn carry_packets(
    py: Python<'_>,
    device: &Bound<'_, Tun>,
    mtu: usize,
    names: Option<&str>,
    addresses: Vec<String>,
    pairing: &str,
    paths: Vec<String>,
    scheduler: String,
    cc: String,
    watch: Py<PyAny>,
    usage: PathBuf,
    classes: Option<&str>,
) -> PyResult<()> {
    let names = match names {
        None => Names::AsTheyAre,
        Some("relay") => Names::Relay,
        Some(server) => Names::Server(socket_address(server)?),
    };
    let other = other_end(addresses, Some(pairing), None)?;
    let classes = read_classes(classes)?;
    let (paths, terms) = read_links(&paths)?;
    let (chosen, switches) = channel();
    let (usage, switch) = (Some(usage), Some(switches));
    let options = Options { paths, terms, usage, scheduler, cc, switch, ..Options::new(other) };
    let device = device.get().device.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(device) = device else { return Err(Error::input("the device is carried already").into()) };
    let name = device.name().to_owned();
    let make = move || Ok(weftway_emu::Tun::offloading(&name).map_err(std::io::Error::other)?.into_fd());
    let device = TunDevice::new(device.into_fd(), make)?;
    let mut stopped = Ok(());
    let result = py.detach(|| {
        let mut tell = |progress: &Progress| go_on(&mut stopped, |py| told(py, &watch, progress, &chosen));
        tunnel(device, mtu, names, classes, options, &mut tell)
    });
    stopped.and(result.map_err(|failure| Error::from(failure).into()))
}
