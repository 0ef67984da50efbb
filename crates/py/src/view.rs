//! Views of a scheduler written in Python: snapshots, with the units in the names.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use weftway_path::{BlockedReason, Bytes, Health, Path, Recovery, Role, SendKind, Starved};

/// A usable path at the time of the question. Bytes are payload.
#[pyclass(frozen, name = "Path", module = "weftway")]
pub struct PathView {
    pub path: Path,
    name: String,
}

/// The packet that would go next.
#[pyclass(frozen, get_all, name = "Packet", module = "weftway")]
pub struct PacketView {
    offset: u64,
    bytes: u64,
    reinjection: bool,
    carried: Vec<u8>,
    avoid: Vec<u8>,
}

/// The connection's data, as its sender sees them.
#[pyclass(frozen, get_all, name = "Flow", module = "weftway")]
pub struct FlowView {
    una: u64,
    next: u64,
    end: u64,
    edge: u64,
    unsent: u64,
    window: u64,
    credit: u64,
    message_start: u64,
    message_end: u64,
    message_age_ms: f64,
    message_class: u8,
    deadline_ms: Option<f64>,
}

/// A question.
#[pyclass(frozen, name = "Context", module = "weftway")]
pub struct ContextView {
    #[pyo3(get)]
    now_ms: f64,
    #[pyo3(get)]
    paths: Py<PyTuple>,
    #[pyo3(get)]
    packet: Option<Py<PacketView>>,
    #[pyo3(get)]
    flow: Option<Py<FlowView>>,
    /// The seed of the question's draws, and their generator once it is asked for.
    seed: u64,
    rng: PyOnceLock<Py<PyAny>>,
}

/// Something that happened. What does not belong to its kind is `None`.
#[pyclass(frozen, get_all, name = "Event", module = "weftway")]
#[derive(Default)]
pub struct EventView {
    kind: &'static str,
    path: Option<u8>,
    offset: Option<u64>,
    bytes: Option<u64>,
    serial: Option<u64>,
    how: Option<&'static str>,
}

#[pymethods]
impl PacketView {
    fn __repr__(&self) -> String {
        let Self { offset, bytes, carried, .. } = self;
        format!("Packet(offset {offset}, {bytes} B, carried by {carried:?})")
    }
}

#[pymethods]
impl FlowView {
    fn __repr__(&self) -> String {
        let Self { una, next, end, unsent, credit, .. } = self;
        format!("Flow(una {una}, next {next}, end {end}, {unsent} B unsent, {credit} B of credit)")
    }
}

#[pymethods]
impl EventView {
    fn __repr__(&self) -> String {
        let numbers = [
            ("path", self.path.map(u64::from)),
            ("offset", self.offset),
            ("bytes", self.bytes),
            ("serial", self.serial),
        ];
        let known = numbers.iter().filter_map(|(name, value)| value.map(|value| format!("{name} {value}")));
        let words = [Some(self.kind), self.how].into_iter().flatten().map(str::to_owned);
        format!("Event({})", words.chain(known).collect::<Vec<_>>().join(", "))
    }
}

impl ContextView {
    /// A snapshot of `cx`; `names` are the paths' names by number, `seed` is that of the draws.
    pub fn new(py: Python<'_>, cx: &weftway_path::Context<'_>, names: &[String], seed: u64) -> PyResult<Self> {
        let paths = cx.paths.iter().map(|path| {
            let name = names.get(path.id.index()).cloned().unwrap_or_else(|| path.id.get().to_string());
            Py::new(py, PathView { path: path.clone(), name })
        });
        let paths = PyTuple::new(py, paths.collect::<PyResult<Vec<_>>>()?)?.unbind();
        let packet = cx.packet.map(|packet| Py::new(py, PacketView::from(packet))).transpose()?;
        let flow = cx.flow.map(|flow| Py::new(py, FlowView::from(flow))).transpose()?;
        Ok(Self { now_ms: cx.now.as_nanos() as f64 / 1e6, paths, packet, flow, seed, rng: PyOnceLock::new() })
    }
}

#[pymethods]
impl ContextView {
    /// The paths that may send now, in the order of their numbers.
    fn sendable<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        let open = |path: &Bound<'_, PyAny>| path.cast::<PathView>().is_ok_and(|path| path.get().path.is_open());
        self.paths.bind(py).iter().filter(open).collect()
    }

    /// A `random.Random` for this question alone: made when it is first used, which costs as much as the snapshot.
    #[getter]
    fn rng(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let make = || py.import("random")?.getattr("Random")?.call1((self.seed,)).map(Bound::unbind);
        self.rng.get_or_try_init(py, make).map(|rng| rng.clone_ref(py))
    }
}

#[pymethods]
impl PathView {
    #[getter]
    fn id(&self) -> u8 {
        self.path.id.get()
    }
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
    #[getter]
    fn role(&self) -> &'static str {
        match self.path.role {
            Role::Active => "active",
            Role::Backup => "backup",
        }
    }
    #[getter]
    fn health(&self) -> &'static str {
        match self.path.health {
            Health::Good => "good",
            Health::Suspect => "suspect",
            Health::Stale => "stale",
        }
    }
    #[getter]
    fn recovery(&self) -> &'static str {
        match self.path.recovery {
            Recovery::Open => "open",
            Recovery::Disorder => "disorder",
            Recovery::Cwr => "cwr",
            Recovery::Recovery => "recovery",
            Recovery::Loss => "loss",
        }
    }
    #[getter]
    fn blocked(&self) -> Option<&'static str> {
        match self.path.blocked {
            BlockedReason::None => None,
            BlockedReason::Congestion => Some("congestion"),
            BlockedReason::Pacing => Some("pacing"),
            BlockedReason::Validation => Some("validation"),
            BlockedReason::Transport => Some("transport"),
        }
    }
    #[getter]
    fn is_open(&self) -> bool {
        self.path.is_open()
    }
    #[getter]
    fn is_active(&self) -> bool {
        self.path.is_active()
    }
    #[getter]
    fn mss(&self) -> u64 {
        self.path.mss.get()
    }
    #[getter]
    fn latest_rtt_ms(&self) -> f64 {
        self.path.latest_rtt.as_millis_f64()
    }
    #[getter]
    fn srtt_ms(&self) -> f64 {
        self.path.srtt.as_millis_f64()
    }
    #[getter]
    fn rttvar_ms(&self) -> f64 {
        self.path.rttvar.as_millis_f64()
    }
    #[getter]
    fn min_rtt_ms(&self) -> f64 {
        self.path.min_rtt.as_millis_f64()
    }
    #[getter]
    fn mean_rtt_ms(&self) -> f64 {
        self.path.mean_rtt().as_millis_f64()
    }
    #[getter]
    fn cwnd(&self) -> u64 {
        self.path.cwnd.get()
    }
    #[getter]
    fn ssthresh(&self) -> Option<u64> {
        finite(self.path.ssthresh)
    }
    #[getter]
    fn bytes_in_flight(&self) -> u64 {
        self.path.bytes_in_flight.get()
    }
    #[getter]
    fn space(&self) -> u64 {
        self.path.space().get()
    }
    #[getter]
    fn queued(&self) -> u64 {
        self.path.queued.get()
    }
    #[getter]
    fn device_queue(&self) -> u64 {
        self.path.device_queue.get()
    }
    #[getter]
    fn bottleneck(&self) -> Option<u8> {
        self.path.bottleneck
    }
    #[getter]
    fn queue_room(&self) -> Option<u64> {
        finite(self.path.queue_room)
    }
    #[getter]
    fn next(&self) -> u64 {
        self.path.next.get()
    }
    #[getter]
    fn delivery_rate_mbps(&self) -> f64 {
        self.path.delivery_rate.as_mbps_f64()
    }
    #[getter]
    fn pacing_rate_mbps(&self) -> f64 {
        self.path.pacing_rate.as_mbps_f64()
    }
    #[getter]
    fn link_rate_mbps(&self) -> f64 {
        self.path.link_rate.as_mbps_f64()
    }
    #[getter]
    fn bytes_sent(&self) -> u64 {
        self.path.sent.bytes.get()
    }
    #[getter]
    fn bytes_acked(&self) -> u64 {
        self.path.acked.bytes.get()
    }
    #[getter]
    fn bytes_lost(&self) -> u64 {
        self.path.lost.bytes.get()
    }
    #[getter]
    fn packets_sent(&self) -> u64 {
        self.path.sent.packets
    }
    #[getter]
    fn packets_acked(&self) -> u64 {
        self.path.acked.packets
    }
    #[getter]
    fn packets_lost(&self) -> u64 {
        self.path.lost.packets
    }
    #[getter]
    fn packets_retransmitted(&self) -> u64 {
        self.path.retransmitted.packets
    }
    #[getter]
    fn pto_count(&self) -> u32 {
        self.path.pto_count
    }
    fn __repr__(&self) -> String {
        let Path { id, srtt, cwnd, bytes_in_flight, .. } = &self.path;
        format!("Path({} {}, srtt {srtt}, {bytes_in_flight} of {cwnd} in flight)", id.get(), self.name)
    }
}

/// No limit is `None` in Python.
fn finite(bytes: Bytes) -> Option<u64> {
    (bytes != Bytes::MAX).then(|| bytes.get())
}

impl From<&weftway_path::Packet> for PacketView {
    fn from(packet: &weftway_path::Packet) -> Self {
        Self {
            offset: packet.offset.get(),
            bytes: packet.bytes.get(),
            reinjection: packet.reinjection,
            carried: packet.carried.iter().map(weftway_path::PathId::get).collect(),
            avoid: packet.avoid.iter().map(weftway_path::PathId::get).collect(),
        }
    }
}

impl From<&weftway_path::Flow> for FlowView {
    fn from(flow: &weftway_path::Flow) -> Self {
        Self {
            una: flow.una.get(),
            next: flow.next.get(),
            end: flow.end.get(),
            edge: flow.edge.get(),
            unsent: flow.unsent.get(),
            window: flow.window().get(),
            credit: flow.credit().get(),
            message_start: flow.message_start.get(),
            message_end: flow.message_end.get(),
            message_age_ms: flow.message_age.as_millis_f64(),
            message_class: flow.class,
            deadline_ms: flow.deadline.map(|at| at.as_nanos() as f64 / 1e6),
        }
    }
}

impl From<&weftway_path::Event> for EventView {
    fn from(event: &weftway_path::Event) -> Self {
        use weftway_path::Event;
        let of = |kind, receipt: &weftway_path::Receipt| Self {
            kind,
            path: Some(receipt.path.get()),
            offset: Some(receipt.offset.get()),
            bytes: Some(receipt.bytes.get()),
            serial: Some(receipt.serial),
            how: None,
        };
        let on = |kind, path: &weftway_path::PathId| Self { kind, path: Some(path.get()), ..Self::default() };
        match event {
            Event::Sent(receipt, how) => Self { how: Some(sent_as(*how)), ..of("sent", receipt) },
            Event::Acked(receipt) => of("acked", receipt),
            Event::Lost(receipt) => of("lost", receipt),
            Event::Recalled(receipt) => of("recalled", receipt),
            Event::Congestion(path) => on("congestion", path),
            Event::PathUp(path) => on("path_up", path),
            Event::PathDown(path) => on("path_down", path),
            Event::Starved(why) => Self { kind: "starved", how: Some(starved_by(*why)), ..Self::default() },
            Event::Wake => Self { kind: "wake", ..Self::default() },
        }
    }
}

fn sent_as(kind: SendKind) -> &'static str {
    match kind {
        SendKind::Fresh => "fresh",
        SendKind::Ahead => "ahead",
        SendKind::Reinjection => "reinjection",
        SendKind::Duplicate => "duplicate",
    }
}

fn starved_by(why: Starved) -> &'static str {
    match why {
        Starved::Window => "window",
        Starved::SendBuffer => "send_buffer",
    }
}
