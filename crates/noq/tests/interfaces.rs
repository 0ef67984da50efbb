//! A socket over several: each datagram leaves through the one of its source address.

use std::error::Error;
use std::future::poll_fn;
use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::time::Duration;

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, Runtime, TokioRuntime};
use weftway_noq::Interfaces;

type Done = Result<(), Box<dyn Error>>;

fn bound(address: &str) -> std::io::Result<UdpSocket> {
    UdpSocket::bind((address, 0))
}

#[tokio::test]
async fn a_datagram_leaves_through_the_socket_of_its_source_and_arrives_with_its_address() -> Done {
    let sockets = [bound("127.0.0.1")?, bound("127.0.0.2")?];
    let ports = [sockets[0].local_addr()?, sockets[1].local_addr()?];
    let mut interfaces = Interfaces::new(sockets, &TokioRuntime)?;
    assert_eq!(interfaces.local_addr()?, ports[0]);
    let peer = bound("127.0.0.1")?;
    peer.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut sender = interfaces.create_sender();
    // Of an address that no socket has, and of none: the first.
    for (source, from) in [(Some("127.0.0.2"), ports[1]), (Some("127.0.0.1"), ports[0]), (None, ports[0])] {
        let src_ip = source.map(str::parse).transpose()?;
        let transmit =
            Transmit { destination: peer.local_addr()?, ecn: None, contents: b"to", segment_size: None, src_ip };
        poll_fn(|cx| sender.as_mut().poll_send(&transmit, cx)).await?;
        let mut buffer = [0; 16];
        assert_eq!(peer.recv_from(&mut buffer)?, (2, from), "{source:?}");
    }
    // Both are read, each with its own address; a busy one does not hide the other.
    for port in [ports[0], ports[0], ports[1]] {
        peer.send_to(b"back", port)?;
    }
    let mut came = Vec::new();
    while came.len() < 3 {
        let (mut buffer, mut meta) = ([0; 2048], [RecvMeta::default()]);
        let count = poll_fn(|cx| interfaces.poll_recv(cx, &mut [IoSliceMut::new(&mut buffer)], &mut meta)).await?;
        assert_eq!(count, 1);
        let datagrams = meta[0].len / meta[0].stride.max(1);
        came.extend((0..datagrams).map(|_| meta[0].dst_ip.unwrap()));
    }
    came.sort();
    assert_eq!(came, [ports[0].ip(), ports[0].ip(), ports[1].ip()]);
    Ok(())
}

#[tokio::test]
async fn sockets_that_cannot_be_told_apart_are_refused() -> Done {
    let refused =
        |sockets: Vec<UdpSocket>| Interfaces::new(sockets, &TokioRuntime as &dyn Runtime).unwrap_err().to_string();
    let text = refused(vec![bound("127.0.0.1")?, bound("0.0.0.0")?]);
    assert!(text.contains("the socket 2") && text.contains("bound to no address"), "{text}");
    let text = refused(vec![bound("127.0.0.1")?, bound("127.0.0.1")?]);
    assert!(text.contains("at 127.0.0.1, is bound to the address of another one"), "{text}");
    assert_eq!(refused(Vec::new()), "an endpoint needs a socket");
    Ok(())
}
