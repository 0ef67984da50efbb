//! Stages of a local program's connection, and its view for the user.

use weftway_mux::StreamId;

use crate::classes::Classes;
use crate::datagram::DatagramCounts;
use crate::dscp::Dscp;
use crate::flow::Flow;
use crate::handshake::{Handshake, Protocol};
use crate::local_udp::LocalUdp;
use crate::target::Purpose;
use crate::view::FlowView;

/// Request of a program.
#[derive(Clone, Debug)]
pub struct Request {
    /// Protocol that it speaks.
    pub protocol: Protocol,
    /// Target of a stream.
    pub purpose: Purpose,
}

/// Stage.
pub enum Stage {
    /// It says where it wants to.
    Hello(Handshake),
    /// It waits for a stream.
    Waiting(Request),
    /// It waits for the relay's word on its stream.
    Opening(Request, StreamId),
    /// Its bytes are carried.
    Joined(Purpose, StreamId, Flow),
    /// Its datagrams are carried.
    Associated(Purpose, LocalUdp),
    /// It has its refusal, and time to read it.
    Closing,
}

impl Stage {
    /// Returns true if it has not said yet where it wants to.
    pub fn is_new(&self) -> bool {
        matches!(self, Self::Hello(_))
    }

    /// Target of the stream that it waits for, if it does.
    pub fn wants(&self) -> Option<&Purpose> {
        match self {
            Self::Waiting(request) => Some(&request.purpose),
            _ => None,
        }
    }

    /// Its stream.
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            Self::Opening(_, id) | Self::Joined(_, id, _) => Some(*id),
            Self::Associated(_, udp) => Some(udp.id()),
            Self::Hello(_) | Self::Waiting(_) | Self::Closing => None,
        }
    }

    /// View of it, if it is carried.
    pub fn flow(&self, classes: &Classes) -> Option<FlowView<'_>> {
        match self {
            Self::Joined(purpose, id, flow) => {
                Some(FlowView::new(*id, purpose, classes.of(purpose, Dscp::NONE), flow.carried()))
            }
            Self::Associated(purpose, udp) => {
                let view = FlowView::new(udp.id(), purpose, udp.class(), udp.carried());
                Some(FlowView { datagrams: udp.counts(), ..view })
            }
            _ => None,
        }
    }

    /// Counters of its datagrams.
    pub fn datagrams(&self) -> DatagramCounts {
        match self {
            Self::Associated(_, udp) => udp.counts(),
            _ => DatagramCounts::default(),
        }
    }

    /// Returns true if its bytes are carried, or its datagrams.
    pub fn is_carried(&self) -> bool {
        matches!(self, Self::Joined(..) | Self::Associated(..))
    }
}
