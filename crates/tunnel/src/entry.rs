//! What a tunnel keeps for each program's connection, and for the datagrams of each local port; and whose a packet is.

use std::net::{IpAddr, SocketAddr};

use weftway_mux::StreamId;
use weftway_path::Instant;
use weftway_relay::{Class, FlowView, Purpose};

use crate::association::{Association, Whose};
use crate::packet::Ends;
use crate::tcp_flow::TcpFlow;

/// Whose a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Of a connection.
    Tcp(Ends),
    /// Of a port of UDP.
    Udp(SocketAddr),
    /// Of an identifier of echo requests.
    Echo(IpAddr, u16),
    /// A question to a server of names.
    Names(Ends),
    /// Nobody's yet.
    Spare(u64),
}

/// What a key stands for.
pub enum Entry {
    /// A connection.
    Tcp(TcpFlow),
    /// Datagrams.
    Datagrams(Association),
}

impl Entry {
    /// What finds it.
    pub fn key(&self) -> Key {
        match self {
            Self::Tcp(flow) => Key::Tcp(flow.ends()),
            Self::Datagrams(association) => match association.whose() {
                Whose::Port(port) => Key::Udp(port),
                Whose::Ident(ip, ident) => Key::Echo(ip, ident),
                Whose::Questions(ends, _) => Key::Names(ends),
                Whose::Spare(number) => Key::Spare(number),
            },
        }
    }

    /// What it wants a stream for, and of which class, if it waits for one.
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

    /// What it is, if it is carried.
    pub fn view(&self) -> Option<FlowView<'_>> {
        match self {
            Self::Tcp(flow) => flow.view(),
            Self::Datagrams(association) => association.view(),
        }
    }

    /// When it is to have its turn, whatever comes before.
    pub fn next_event(&mut self, now: Instant) -> Instant {
        match self {
            Self::Tcp(flow) => flow.next_event(now),
            Self::Datagrams(association) => association.next_event(),
        }
    }
}
