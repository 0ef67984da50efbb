//! Messages of both ends of a carried connection about links: the end with the links tells what each may carry, the
//! other one what it has sent. Paths have other numbers in each connection, so whatever is said names the connection
//! that it is about.

use weftway_mux::Mux;
use weftway_path::Instant;
use weftway_quic::driver::duplex::Duplex;

use crate::failure::Failure;
use crate::links::metering::Metering;
use crate::links::peer_policy::PeerPolicy;
use crate::programs::mux_control::MuxControl;
use crate::wire::{Message, PathTerms};

/// State of the exchange in one connection.
pub(crate) struct PolicyExchange {
    /// Terms that this end has told of its links.
    told: Vec<PathTerms>,
    /// Terms that the other end has told of its own.
    peer: PeerPolicy,
}

impl PolicyExchange {
    /// The other end has a policy, as it said in its greeting, or none. If it has, nothing is sent on a path of which
    /// it has said nothing.
    pub fn new(peer_has_policy: bool) -> Self {
        Self { told: Vec::new(), peer: PeerPolicy::new(peer_has_policy) }
    }

    /// Takes in what the other end has said.
    pub fn receive(
        &mut self,
        now: Instant,
        control: &mut MuxControl,
        mux: &mut Mux,
        mut metering: Option<&mut Metering>,
    ) -> Result<(), Failure> {
        control.exchange(now, mux)?;
        while let Some(message) = control.receive()? {
            match (message, &mut metering) {
                // It was said before that connection was lost.
                (Message::Paths { connection, .. } | Message::Spent { connection, .. }, _)
                    if connection != mux.connection() => {}
                (Message::Paths { paths, .. }, None) => self.peer.set(paths),
                (Message::Spent { paths, .. }, Some(metering)) => {
                    paths.into_iter().for_each(|(number, bytes)| metering.spent(number, bytes));
                }
                (other, _) => {
                    return Err(Failure::Protocol(format!("a message comes out of turn: {}", other.name())));
                }
            }
            control.exchange(now, mux)?;
        }
        Ok(())
    }

    /// Tells the other end what it has to know, and keeps to what it has said.
    pub fn send(
        &mut self,
        now: Instant,
        control: &mut MuxControl,
        duplex: &mut Duplex,
        metering: Option<&Metering>,
    ) -> Result<(), Failure> {
        let connection = duplex.streams().mux().connection();
        let terms = metering.map(|metering| metering.terms(duplex.connection())).unwrap_or_default();
        let spent = self.peer.attend(duplex.sender_mut());
        if terms == self.told && spent.is_empty() {
            return Ok(());
        }
        if terms != self.told {
            control.send(&Message::Paths { connection, paths: terms.clone() })?;
            self.told = terms;
        }
        if !spent.is_empty() {
            control.send(&Message::Spent { connection, paths: spent })?;
        }
        control.exchange(now, duplex.mux())
    }
}

#[cfg(test)]
mod tests;
