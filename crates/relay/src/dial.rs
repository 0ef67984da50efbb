//! Connects to the first of several addresses that answers: one after the other, the next when one fails or has not answered
//! for a while (RFC 8305 in its simplest form).

use std::collections::VecDeque;
use std::net::SocketAddr;

use mio::Registry;
use mio::event::Event;
use weftway_path::Instant;

use crate::limits::{ATTEMPT, MOST_ADDRESSES};
use crate::refusal::Refusal;
use crate::socket::{SOCKETS, Socket, token};

const _: () = assert!(MOST_ADDRESSES <= SOCKETS, "each attempt has a token of its own");

/// What became of it so far.
#[derive(Debug)]
pub enum Dialled {
    /// Nothing yet.
    Pending,
    /// An address answered.
    Connected(Socket),
    /// None did.
    Failed(Refusal),
}

#[derive(Debug)]
struct Attempt {
    number: usize,
    socket: Socket,
}

/// Addresses on the way to a connection.
#[derive(Debug)]
pub struct Dial {
    addresses: VecDeque<SocketAddr>,
    attempts: Vec<Attempt>,
    started: usize,
    next_at: Instant,
    /// What the first attempt failed of that had a route at all.
    refusal: Option<Refusal>,
}

impl Dial {
    /// To one of `addresses`, of which the first are tried.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            addresses: addresses.into_iter().take(MOST_ADDRESSES).collect(),
            attempts: Vec::new(),
            started: 0,
            next_at: Instant::ZERO,
            refusal: None,
        }
    }

    /// Takes note of what the socket of an attempt tells.
    pub fn note(&mut self, number: usize, event: &Event) {
        if let Some(attempt) = self.attempts.iter_mut().find(|attempt| attempt.number == number) {
            attempt.socket.note(event);
        }
    }

    /// When the next address is due.
    pub fn next_event(&self) -> Instant {
        if self.addresses.is_empty() { Instant::NEVER } else { self.next_at }
    }

    /// Goes on as far as it can without waiting, for entry `key`.
    pub fn turn(&mut self, now: Instant, registry: &Registry, key: usize) -> Dialled {
        let mut at = 0;
        while at < self.attempts.len() {
            match self.attempts[at].socket.is_connected() {
                Ok(true) => return Dialled::Connected(self.attempts.swap_remove(at).socket),
                Ok(false) => at += 1,
                Err(error) => {
                    self.attempts.remove(at);
                    self.fail(Refusal::of(&error));
                    self.next_at = now;
                }
            }
        }
        while (self.attempts.is_empty() || self.next_at <= now)
            && let Some(address) = self.addresses.pop_front()
        {
            let number = self.started;
            self.started += 1;
            match Socket::connect(address, registry, token(key, number)) {
                Ok(socket) => {
                    self.attempts.push(Attempt { number, socket });
                    self.next_at = now + ATTEMPT;
                }
                Err(error) => self.fail(Refusal::of(&error)),
            }
        }
        if !self.attempts.is_empty() {
            return Dialled::Pending;
        }
        Dialled::Failed(self.refusal.unwrap_or(Refusal::General))
    }

    /// What a network without a route says is of the least interest: many machines have no IPv6.
    fn fail(&mut self, refusal: Refusal) {
        let before = self.refusal.filter(|&before| before != Refusal::NetworkUnreachable);
        self.refusal = Some(before.unwrap_or(refusal));
    }
}
