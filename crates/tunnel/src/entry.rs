//! Entry of a tunnel for each program's connection, and for the datagrams of each local port; and the key of a packet.

use std::net::{IpAddr, SocketAddr};

use weftway_mux::StreamId;
use weftway_path::Instant;
use weftway_relay::{Class, FlowView, Purpose};

use crate::association::{Association, Owner};
use crate::packet::Ends;
use crate::tcp_flow::TcpFlow;

/// Key of a packet: its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Key of a connection.
    Tcp(Ends),
    /// Key of a port of UDP.
    Udp(SocketAddr),
    /// Key of an identifier of echo requests.
    Echo(IpAddr, u16),
    /// A question to a server of names.
    Names(Ends),
    /// Nobody's yet.
    Spare(u64),
}

/// Entry of a key.
pub enum Entry {
    /// A connection.
    Tcp(TcpFlow),
    /// Datagrams.
    Datagrams(Association),
}

impl Entry {
    /// Key that finds it.
    pub fn key(&self) -> Key {
        match self {
            Self::Tcp(flow) => Key::Tcp(flow.ends()),
            Self::Datagrams(association) => match association.owner() {
                Owner::Port(port) => Key::Udp(port),
                Owner::Ident(ip, ident) => Key::Echo(ip, ident),
                Owner::Questions(ends, _) => Key::Names(ends),
                Owner::Spare(number) => Key::Spare(number),
            },
        }
    }

    /// Target and class of the stream that it waits for, if it does.
    pub fn wants(&self) -> Option<(&Purpose, Class)> {
        match self {
            Self::Tcp(flow) => flow.wants(),
            Self::Datagrams(association) => association.wants(),
        }
    }

    /// Its stream.
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            Self::Tcp(flow) => flow.stream(),
            Self::Datagrams(association) => association.stream(),
        }
    }

    /// View of it, if it is carried.
    pub fn view(&self) -> Option<FlowView<'_>> {
        match self {
            Self::Tcp(flow) => flow.view(),
            Self::Datagrams(association) => association.view(),
        }
    }

    /// Instant of its next turn, whatever comes before.
    pub fn next_event(&mut self, now: Instant) -> Instant {
        match self {
            Self::Tcp(flow) => flow.next_event(now),
            Self::Datagrams(association) => association.next_event(),
        }
    }
}
