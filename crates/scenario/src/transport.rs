//! From the name of a transport and its settings to [`Transport`].

use weftway_path::Bytes;

use super::error::{Fault, Mistake};
use super::schema::{
    AckPathName, AppLimitedName, BottlenecksName, Buffer as BufferForm, DirectionName, File, OpeningName, Options,
    PathManagerName, RtoFloorName, StackName, TransportName,
};
use super::units::{Packets, Quantity, Size, Time};
use crate::config::{AckPath, AppLimited, Bottlenecks, Buffer, Direction, Opening, PathManager, RtoFloor, Transport};
use crate::stack::LossRecovery;

/// The transport of the measured connection.
pub(super) fn main(file: &File) -> Result<Transport, Fault> {
    named(file.transport, file.stack, file)
}

/// The transport of the second connection: the first one's, unless it names its own.
pub(super) fn rival(file: &File, name: Option<TransportName>) -> Result<Transport, Fault> {
    match name {
        Some(name) if name != file.transport => {
            let plain = Options { ecn: file.options.ecn, ..Options::default() };
            plain.apply(defaults(name, None), file.direction)
        }
        _ => main(file),
    }
}

fn named(name: TransportName, stack: Option<StackName>, file: &File) -> Result<Transport, Fault> {
    if stack.is_some() && name != TransportName::Mptcp {
        return Err(Fault::value("only transport = \"mptcp\" comes in several stacks").key(&["stack"]));
    }
    file.options.apply(defaults(name, stack), file.direction)
}

fn defaults(name: TransportName, stack: Option<StackName>) -> Transport {
    match (name, stack) {
        (TransportName::Mptcp, Some(StackName::LinuxV1)) => Transport::mptcp_linux_v1(),
        (TransportName::Mptcp, _) => Transport::mptcp_v09x(),
        (TransportName::Mpquic, _) => Transport::mpquic(),
        (TransportName::Tcp, _) => Transport::tcp(),
    }
}

impl TransportName {
    /// As in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mptcp => "mptcp",
            Self::Mpquic => "mpquic",
            Self::Tcp => "tcp",
        }
    }
}

impl Options {
    fn apply(&self, base: Transport, direction: DirectionName) -> Result<Transport, Fault> {
        self.check()?;
        let tcp = base.rules.recovery == LossRecovery::Tcp;
        let quic = !tcp;
        let transport = Transport {
            packet: self.packet.map_or(base.packet, Size::get),
            mss: self.mss.map_or(base.mss, Size::get),
            ack_packet: self.ack_packet.map_or(base.ack_packet, Size::get),
            initial_window: self.initial_window.map_or(base.initial_window, Packets::get),
            send_buffer: self.send_buffer.as_ref().map_or(base.send_buffer, buffer),
            receive_buffer: self.receive_buffer.as_ref().map_or(base.receive_buffer, buffer),
            subflow_windows: base.subflow_windows && self.subflow_windows.unwrap_or(true),
            stream_window: self.stream_window.map(Size::get).or(base.stream_window),
            ack_every: self.ack_every.map_or(base.ack_every, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
            ack_delay: self.ack_delay.map_or(base.ack_delay, Time::get),
            ack_path: self.ack_path.map_or(base.ack_path, ack_path),
            app_limited: self.app_limited.map_or(base.app_limited, app_limited),
            credit_late_acks: self.credit_late_acks.unwrap_or(base.credit_late_acks),
            reinject_at_pto: quic && self.reinject_at_pto.unwrap_or(base.reinject_at_pto),
            pace_window: quic && self.pace_window.unwrap_or(base.pace_window),
            packet_threshold: self.packet_threshold.map_or(base.packet_threshold, Packets::get),
            time_threshold_eighths: self.time_threshold_eighths.map_or(base.time_threshold_eighths, |n| n.0),
            min_rto: self.min_rto.map_or(base.min_rto, Time::get),
            rto_floor: self.rto_floor.map_or(base.rto_floor, rto_floor),
            opportunistic: self.opportunistic.or(base.opportunistic),
            penalise: self.penalise.or(base.penalise),
            penalise_first_only: self.penalise_first_only.unwrap_or(base.penalise_first_only),
            holds_small: tcp && self.nodelay.map_or(base.holds_small, |nodelay| !nodelay),
            tick: self.tick.filter(|_| tcp).map_or(base.tick, Time::get),
            host_jitter: self.host_jitter.map_or(base.host_jitter, Time::get),
            path_manager: self.path_manager.map_or(base.path_manager, path_manager),
            open: self.open.map_or(base.open, opening),
            path_timeout: self.path_timeout.map_or(base.path_timeout, Time::get),
            probe_interval: self.probe_interval.map_or(base.probe_interval, Time::get),
            direction: match direction {
                DirectionName::Download => Direction::Download,
                DirectionName::Upload => Direction::Upload,
            },
            ecn: self.ecn.unwrap_or(base.ecn),
            bottlenecks: self.bottlenecks.map_or(base.bottlenecks, bottlenecks),
            ..base
        };
        fits(&transport)?;
        Ok(transport)
    }

    /// What would stop a connection for ever, or never let it rest.
    fn check(&self) -> Result<(), Fault> {
        let zero = |size: &Option<BufferForm>| match size {
            Some(BufferForm::Fixed(size)) => size.is_zero(),
            Some(BufferForm::Auto(size)) => size.auto.is_zero(),
            None => false,
        };
        let zeros = [
            ("packet", is_zero(self.packet)),
            ("mss", is_zero(self.mss)),
            ("ack_packet", is_zero(self.ack_packet)),
            ("initial_window", is_zero(self.initial_window)),
            ("send_buffer", zero(&self.send_buffer)),
            ("receive_buffer", zero(&self.receive_buffer)),
            ("stream_window", is_zero(self.stream_window)),
            ("ack_every", is_zero(self.ack_every)),
            ("packet_threshold", is_zero(self.packet_threshold)),
            ("time_threshold_eighths", self.time_threshold_eighths.is_some_and(|n| n.0 == 0)),
            ("min_rto", is_zero(self.min_rto)),
            ("path_timeout", is_zero(self.path_timeout)),
            ("probe_interval", is_zero(self.probe_interval)),
        ];
        match zeros.iter().find(|(_, zero)| *zero) {
            Some((key, _)) => Err(Fault::value(format!("`{key}` must be more than zero")).key(&["options", key])),
            None => Ok(()),
        }
    }
}

fn is_zero<D: super::units::Dimension>(value: Option<Quantity<D>>) -> bool {
    value.is_some_and(Quantity::is_zero)
}

fn fits(transport: &Transport) -> Result<(), Fault> {
    let Transport { mss, packet, path_manager, open, .. } = *transport;
    if mss > packet {
        let reason = format!("a payload of {mss} does not fit into a packet of {packet}; set `mss` and `packet`");
        return Err(Fault::new(Mistake::Value, reason).key(&["options"]));
    }
    for (key, buffer) in [("send_buffer", &transport.send_buffer), ("receive_buffer", &transport.receive_buffer)] {
        let (Buffer::Fixed(room) | Buffer::Auto { max: room }) = *buffer;
        if room < mss {
            let reason = format!("the payload of a packet, {mss}, does not fit into a `{key}` of {room}");
            return Err(Fault::value(reason).key(&["options", key]));
        }
    }
    let most = Bytes::new(65_535);
    if packet > most {
        return Err(Fault::value(format!("an IP packet has at most {most}")).key(&["options", "packet"]));
    }
    if (open, path_manager) == (Opening::Race, PathManager::PrimaryFirst) {
        let reason = "`race` begins on all paths at once, and `path_manager = \"primary-first\"` on the first alone; leave \
                      one of them out";
        return Err(Fault::value(reason).key(&["options", "open"]));
    }
    Ok(())
}

fn buffer(form: &BufferForm) -> Buffer {
    match form {
        BufferForm::Fixed(size) => Buffer::Fixed(size.get()),
        BufferForm::Auto(size) => Buffer::Auto { max: size.auto.get() },
    }
}

fn ack_path(name: AckPathName) -> AckPath {
    match name {
        AckPathName::Same => AckPath::Same,
        AckPathName::Fastest => AckPath::Fastest,
    }
}

fn app_limited(name: AppLimitedName) -> AppLimited {
    match name {
        AppLimitedName::Never => AppLimited::Never,
        AppLimitedName::NoData => AppLimited::NoData,
        AppLimitedName::Path => AppLimited::Path,
    }
}

fn rto_floor(name: RtoFloorName) -> RtoFloor {
    match name {
        RtoFloorName::Linux => RtoFloor::Linux,
        RtoFloorName::Rfc6298 => RtoFloor::Rfc6298,
    }
}

fn bottlenecks(name: BottlenecksName) -> Bottlenecks {
    match name {
        BottlenecksName::None => Bottlenecks::None,
        BottlenecksName::Given => Bottlenecks::Given,
        BottlenecksName::Detected => Bottlenecks::Detected,
    }
}

fn path_manager(name: PathManagerName) -> PathManager {
    match name {
        PathManagerName::FullMesh => PathManager::FullMesh,
        PathManagerName::PrimaryFirst => PathManager::PrimaryFirst,
        PathManagerName::Backup => PathManager::Backup,
    }
}

fn opening(name: OpeningName) -> Opening {
    match name {
        OpeningName::Primary => Opening::Primary,
        OpeningName::Race => Opening::Race,
    }
}
