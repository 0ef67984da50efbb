//! Sockets and streams say once that they are ready. Whatever order they say it in, and whatever the other one does
//! meanwhile, everything is carried.

mod joined;

use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use weftway_mux::{Limits, Side};

use super::*;
use joined::{Joined, NOW};

#[test]
fn the_socket_is_ready_first_and_then_the_stream_takes_more() {
    let mut joined = Joined::new();
    let written = joined.fill();
    // All that the socket tells was told while the stream took nothing.
    let mut read = 0;
    joined.until("all is read", |joined| {
        joined.deliver();
        read += joined.read_far().0;
        read == written
    });
}

#[test]
fn the_stream_takes_more_first_and_then_the_socket_is_ready() {
    let mut joined = Joined::new();
    for round in 1..4 {
        joined.settle();
        joined.peer.write_all(&[7; 5000]).unwrap();
        let mut read = 0;
        joined.until("the bytes of this round are read", |joined| {
            joined.deliver();
            read += joined.read_far().0;
            read == 5000
        });
        assert_eq!(joined.flow.carried()[0], round * 5000);
    }
}

#[test]
fn an_end_of_the_socket_that_comes_while_the_stream_takes_nothing() {
    let mut joined = Joined::new();
    let written = joined.fill();
    joined.peer.shutdown(Shutdown::Write).unwrap();
    joined.settle();
    let mut read = 0;
    joined.until("the end is read", |joined| {
        joined.deliver();
        let (count, end) = joined.read_far();
        read += count;
        end
    });
    assert_eq!(read, written);
}

#[test]
fn the_stream_has_more_first_and_then_the_socket_takes_more() {
    let mut joined = Joined::new();
    let written = joined.fill_far();
    let mut read = 0;
    joined.until("all is read", |joined| {
        read += joined.read_peer().0;
        joined.deliver();
        read == written
    });
}

#[test]
fn the_socket_takes_more_first_and_then_the_stream_has_more() {
    let mut joined = Joined::new();
    let written = joined.fill_far();
    // The program reads all that the socket was ready to take; nothing is delivered meanwhile.
    let mut read = 0;
    joined.until("nothing is left at this end", |joined| {
        read += joined.read_peer().0;
        joined.flow.carried()[1] == read as u64 && joined.mux.receive_memory() == 0
    });
    joined.settle();
    let more = joined.write_far(1000);
    joined.until("all is read", |joined| {
        joined.deliver();
        read += joined.read_peer().0;
        read == written + more
    });
}

#[test]
fn an_end_of_the_stream_that_comes_while_the_socket_takes_nothing() {
    let mut joined = Joined::new();
    let written = joined.fill_far();
    joined.far.finish(joined.flow.id).unwrap();
    joined.deliver();
    joined.settle();
    let mut read = 0;
    joined.until("the end is read", |joined| {
        joined.deliver();
        let (count, end) = joined.read_peer();
        read += count;
        end
    });
    assert_eq!(read, written);
}

#[test]
fn a_reset_of_the_stream_that_comes_while_the_socket_takes_nothing() {
    let mut joined = Joined::new();
    joined.fill_far();
    joined.far.reset(joined.flow.id, ABORTED).unwrap();
    joined.deliver();
    joined.until("it is over", |joined| joined.socket.is_none());
    assert_eq!(joined.last, Turn::Broken);
}

#[test]
fn a_reset_of_the_stream_that_comes_behind_its_end() {
    let mut joined = Joined::new();
    joined.far.finish(joined.flow.id).unwrap();
    joined.deliver();
    joined.settle();
    joined.far.reset(joined.flow.id, ABORTED).unwrap();
    joined.deliver();
    joined.until("it is over", |joined| joined.socket.is_none());
    assert_eq!(joined.last, Turn::Broken);
}

#[test]
fn a_reset_of_the_socket_that_comes_while_the_stream_takes_nothing() {
    let mut joined = Joined::new();
    joined.fill();
    rustix::net::sockopt::set_socket_linger(&joined.peer, Some(Duration::ZERO)).unwrap();
    joined.peer = TcpStream::connect(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()).unwrap();
    joined.until("it is over", |joined| joined.socket.is_none());
    assert_eq!((joined.last, joined.mux.open_streams()), (Turn::Broken, 0));
}

#[test]
fn ends_of_both_directions_are_the_end() {
    for socket_first in [true, false] {
        let mut joined = Joined::new();
        let id = joined.flow.id;
        let end_far = |joined: &mut Joined| {
            joined.far.finish(id).unwrap();
            joined.deliver();
        };
        if !socket_first {
            end_far(&mut joined);
            joined.until("the program has its end", |joined| joined.read_peer().1);
        }
        joined.peer.shutdown(Shutdown::Write).unwrap();
        joined.until("the far end has its end", |joined| {
            joined.deliver();
            joined.read_far().1
        });
        if socket_first {
            end_far(&mut joined);
        }
        joined.until("it is over", |joined| joined.socket.is_none());
        joined.deliver();
        assert_eq!((joined.last, joined.mux.open_streams(), joined.far.open_streams()), (Turn::Over, 0, 0));
    }
}

#[test]
fn a_socket_that_brings_much_lets_others_have_their_turn() {
    let limits = Limits { first_credit: weftway_path::Bytes::new(4 << 20), streams: 4, ..Limits::default() };
    let mut joined = Joined::new();
    joined.mux = Mux::new(Side::Connecting, limits, limits).unwrap();
    let id = joined.mux.open(NOW, 1, b"there", None).unwrap();
    joined.flow = Flow::new(id, Bytes::new(), Bytes::new());
    while joined.peer.write(&[7; 10_000]).is_ok() {}
    let mut before = 0;
    let mut turns = 0;
    while turns < 3 {
        joined.turn();
        let now = joined.flow.carried()[0];
        assert!(now - before <= (BURST + READ) as u64, "{now} {before}");
        turns += usize::from(now > before);
        before = now;
        let _ = joined.peer.write(&[7; 10_000]);
    }
}
