//! Netlink against the running kernel: each test in a namespace of its own, all traffic over its loopback device.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::socket::{Backlog, SockaddrIn, bind, connect, listen};
use weftway_emu::netlink::{
    Diagnosis, Endpoint, EndpointFlags, Events, PathManager, PmEvent, PmEventKind, Prefix, Route, SubflowInfo, diagnose,
};
use weftway_emu::{EmuError, Namespace};
use weftway_path::Bytes;

const FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, 1), 5001);

/// Runs `test` in a new namespace with three addresses on its loopback device, or says why not.
fn in_a_namespace(test: impl FnOnce() -> Result<(), EmuError> + Send) {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let with_addresses = || {
        let route = Route::open()?;
        route.set_up("lo", 1500, 100)?;
        [FIRST, SECOND, *SERVER.ip()]
            .iter()
            .try_for_each(|&address| route.add_address("lo", Prefix::new(address, 24)))?;
        test()
    };
    match namespace.within(with_addresses) {
        Err(error @ EmuError::Missing { .. }) => eprintln!("skipped: {error}"),
        result => result.unwrap(),
    }
}

/// What `ip` prints; `None` where it is not installed.
fn ip(arguments: &str) -> Option<String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    match output {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
        Err(error) => {
            eprintln!("not read back: ip: {error}");
            None
        }
    }
}

fn assert_ip(arguments: &str, expected: &str) {
    if let Some(text) = ip(arguments) {
        assert!(text.contains(expected), "`ip {arguments}` has no {expected:?}:\n{text}");
    }
}

#[test]
fn addresses_routes_and_rules_are_there() {
    in_a_namespace(|| {
        let route = Route::open()?;
        route.add_route(Prefix::new(Ipv4Addr::new(10, 9, 0, 0), 16), "lo", 100, Some(FIRST))?;
        route.add_route(Prefix::ALL, "lo", 1000, None)?;
        route.add_rule(SECOND, 1000)?;
        assert_ip("link show lo", "mtu 1500");
        assert_ip("link show lo", "qlen 100");
        assert_ip("address show dev lo", "inet 10.0.1.1/24");
        assert_ip("route show table 100", "10.9.0.0/16 dev lo proto static scope link src 10.0.1.1");
        assert_ip("route show table 1000", "default dev lo proto static scope link");
        assert_ip("rule show", "from 10.0.1.2 lookup 1000");
        Ok(())
    });
}

#[test]
fn a_refusal_says_what_was_being_done() {
    in_a_namespace(|| {
        let error = Route::open()?.add_address("lo", Prefix::new(FIRST, 24)).unwrap_err().to_string();
        assert!(error.starts_with("adding 10.0.1.1/24 to lo"), "{error}");
        let error = Route::open()?.set_up("wifi", 1500, 1).unwrap_err().to_string();
        assert!(error.starts_with("looking up wifi"), "{error}");
        // The kernel's own words come along.
        let error = PathManager::open()?.remove_endpoint(9, FIRST).unwrap_err().to_string();
        assert!(error.starts_with("removing the endpoint 10.0.1.1 (id 9) (address not found)"), "{error}");
        Ok(())
    });
}

#[test]
fn counters_of_a_device_count_ip_packets() {
    in_a_namespace(|| {
        let route = Route::open()?;
        let before = route.link_stats("lo")?;
        UdpSocket::bind((FIRST, 0)).unwrap().send_to(&[0; 100], (SECOND, 9)).unwrap();
        let after = route.link_stats("lo")?;
        // 20 bytes of IP, 8 of UDP and 100 of data, and an ICMP "port unreachable" with 20 + 8 bytes before all of
        // these.
        assert_eq!(after.tx_packets - before.tx_packets, 2);
        assert_eq!(after.tx_bytes - before.tx_bytes, Bytes::new(128 + 28 + 128));
        assert_eq!((after.rx_packets, after.rx_bytes), (after.tx_packets, after.tx_bytes));
        Ok(())
    });
}

#[test]
fn endpoints_are_listed_as_they_were_added() {
    in_a_namespace(|| {
        let (manager, device) = (PathManager::open()?, Route::open()?.device_index("lo")?);
        let mesh = EndpointFlags { subflow: true, fullmesh: true, ..Default::default() };
        let signal = EndpointFlags { signal: true, ..Default::default() };
        let first = Endpoint { id: Some(7), address: FIRST, device: Some(device), flags: mesh };
        let second = Endpoint { id: Some(9), address: SECOND, device: None, flags: signal };
        manager.set_limits(3, 5)?;
        assert_ip("mptcp limits", "add_addr_accepted 5 subflows 3");
        manager.add_endpoint(&first)?;
        manager.add_endpoint(&second)?;
        assert_eq!(manager.endpoints()?, [first, second]);

        // By its id, and by its address; a full mesh stays one.
        manager.set_backup(&first, true)?;
        manager.set_backup(&Endpoint { id: None, ..second }, true)?;
        let backups = manager.endpoints()?;
        assert_eq!(backups[0].flags, EndpointFlags { backup: true, ..mesh });
        assert_eq!(backups[1].flags, EndpointFlags { backup: true, ..signal });
        manager.set_backup(&first, false)?;
        manager.remove_endpoint(9, SECOND)?;
        assert_eq!(manager.endpoints()?, [first]);
        Ok(())
    });
}

#[expect(unsafe_code, reason = "the standard library makes no sockets of MPTCP")]
fn mptcp_socket() -> OwnedFd {
    const IPPROTO_MPTCP: i32 = 262;
    // SAFETY: `socket` takes numbers only, and its answer is checked before it is owned.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, IPPROTO_MPTCP) };
    assert!(fd >= 0, "no MPTCP socket: {}", std::io::Error::last_os_error());
    // SAFETY: a new descriptor that nothing else has.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A connection from 10.0.1.1 to the server over which a byte went both ways: it can have further subflows now.
fn connection() -> (TcpStream, TcpStream, TcpListener) {
    let listener = mptcp_socket();
    bind(listener.as_raw_fd(), &SockaddrIn::from(SERVER)).unwrap();
    listen(&listener, Backlog::new(1).unwrap()).unwrap();
    let client = mptcp_socket();
    bind(client.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(FIRST, 0))).unwrap();
    connect(client.as_raw_fd(), &SockaddrIn::from(SERVER)).unwrap();
    let (listener, mut client) = (TcpListener::from(listener), TcpStream::from(client));
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(&[1]).unwrap();
    server.read_exact(&mut [0]).unwrap();
    server.write_all(&[2]).unwrap();
    client.read_exact(&mut [0]).unwrap();
    (client, server, listener)
}

/// The next event for which `wanted` holds; others are passed over.
fn await_event(events: &Events, wanted: impl Fn(&PmEvent) -> bool) -> PmEvent {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        match events.next(Duration::from_millis(100)).unwrap() {
            Some(event) if wanted(&event) => return event,
            _ => {}
        }
    }
    panic!("the event did not come");
}

fn of_client(kind: PmEventKind, token: u32) -> impl Fn(&PmEvent) -> bool {
    move |event| event.kind == kind && event.token == Some(token)
}

/// The client's subflows, the first one first.
fn subflows(token: u32) -> Vec<SubflowInfo> {
    let mut subflows = diagnose().unwrap();
    subflows.retain(|subflow| subflow.mptcp.is_some_and(|mptcp| mptcp.token_loc == Some(token)));
    subflows.sort_by_key(|subflow| subflow.mptcp.unwrap().flags.joined());
    subflows
}

fn client_token(events: &Events) -> u32 {
    let created = |event: &PmEvent| event.kind == PmEventKind::Created && event.server_side != Some(true);
    await_event(events, created).token.unwrap()
}

fn second_subflow(id: u8) -> Endpoint {
    let flags = EndpointFlags { subflow: true, ..Default::default() };
    Endpoint { id: Some(id), address: SECOND, device: None, flags }
}

#[test]
fn the_kernels_path_manager_opens_and_steers_a_subflow() {
    in_a_namespace(|| {
        let (manager, events) = (PathManager::open()?, Events::open()?);
        let endpoint = second_subflow(3);
        manager.set_limits(2, 2)?;
        manager.add_endpoint(&endpoint)?;
        let _connection = connection();
        let token = client_token(&events);
        let opened = await_event(&events, of_client(PmEventKind::SubflowEstablished, token));
        assert_eq!((opened.local_id, opened.backup), (Some(3), Some(false)));
        assert_eq!((opened.local.map(|local| *local.ip()), opened.remote), (Some(SECOND), Some(SERVER)));

        let both = subflows(token);
        assert_eq!(both.iter().map(|subflow| *subflow.local.ip()).collect::<Vec<_>>(), [FIRST, SECOND]);
        assert_eq!(both[1].mptcp.unwrap().id_loc, 3);
        // One byte went each way over the first subflow: with the SYN, two are acknowledged.
        assert_eq!((both[0].tcp.bytes_sent, both[0].tcp.bytes_acked), (Bytes::new(1), Bytes::new(2)));
        assert!(both[0].tcp.min_rtt.is_some() && !both[0].controller.is_empty());
        let diagnosis = Diagnosis::open()?;
        assert_eq!(diagnosis.subflow(both[1].local, SERVER)?.unwrap().inode, both[1].inode);
        assert_eq!(diagnosis.subflow(both[1].local, SocketAddrV4::new(FIRST, 1))?, None);
        let connections = diagnosis.connections()?;
        let client = connections.iter().find(|connection| connection.token == token).unwrap();
        assert_eq!((client.remote, client.extra_subflows, client.fallback), (SERVER, 1, false));

        for backup in [true, false] {
            manager.set_backup(&endpoint, backup)?;
            assert_eq!(subflows(token)[1].mptcp.unwrap().flags.backup_loc(), backup);
            assert!(!subflows(token)[0].mptcp.unwrap().flags.backup_loc());
            // The server hears of it.
            let told = await_event(&events, |event| event.kind == PmEventKind::SubflowPriority);
            assert_eq!((told.backup, told.remote.map(|remote| *remote.ip())), (Some(backup), Some(SECOND)));
        }
        manager.remove_endpoint(3, SECOND)?;
        await_event(&events, of_client(PmEventKind::SubflowClosed, token));
        assert_eq!(subflows(token).len(), 1);
        Ok(())
    });
}

/// `false` where this kernel has no path manager in userspace.
fn userspace_path_manager() -> bool {
    let done = fs::write("/proc/sys/net/mptcp/pm_type", "1");
    done.inspect_err(|error| eprintln!("skipped: net.mptcp.pm_type: {error}")).is_ok()
}

#[test]
fn a_program_can_manage_the_paths_of_one_connection() {
    in_a_namespace(|| {
        let (manager, events) = (PathManager::open()?, Events::open()?);
        if !userspace_path_manager() {
            return Ok(());
        }
        let ends = connection();
        let token = client_token(&events);
        await_event(&events, of_client(PmEventKind::Established, token));
        assert_eq!(subflows(token).len(), 1);

        manager.create_subflow(token, &second_subflow(2), SERVER)?;
        let opened = await_event(&events, of_client(PmEventKind::SubflowEstablished, token));
        let (local, remote) = (opened.local.unwrap(), opened.remote.unwrap());
        assert_eq!((*local.ip(), remote, opened.local_id), (SECOND, SERVER, Some(2)));
        assert_eq!(subflows(token).len(), 2);

        for backup in [true, false] {
            manager.set_subflow_backup(token, local, remote, backup)?;
            assert_eq!(subflows(token)[1].mptcp.unwrap().flags.backup_loc(), backup);
            let told = await_event(&events, |event| event.kind == PmEventKind::SubflowPriority);
            assert_eq!((told.backup, told.local, told.remote), (Some(backup), Some(remote), Some(local)));
        }
        manager.announce(token, 4, *SERVER.ip())?;
        let heard = await_event(&events, |event| event.kind == PmEventKind::Announced);
        assert_eq!((heard.remote_id, heard.remote.map(|remote| *remote.ip())), (Some(4), Some(*SERVER.ip())));
        manager.withdraw(token, 4)?;
        assert_eq!(await_event(&events, |event| event.kind == PmEventKind::Removed).remote_id, Some(4));

        manager.destroy_subflow(token, local, remote)?;
        await_event(&events, of_client(PmEventKind::SubflowClosed, token));
        assert_eq!(subflows(token).len(), 1);
        drop(ends);
        await_event(&events, of_client(PmEventKind::Closed, token));
        Ok(())
    });
}

/// Prints a number and checks none: `cargo test -p weftway-emu --test netlink -- --ignored --nocapture`.
#[test]
#[ignore = "prints what the calls cost"]
fn what_a_call_costs() {
    in_a_namespace(|| {
        let (manager, events, diagnosis) = (PathManager::open()?, Events::open()?, Diagnosis::open()?);
        let median = |what: &str, call: &mut dyn FnMut(usize) -> Result<(), EmuError>| {
            let mut times = Vec::new();
            for round in 0..501 {
                let start = Instant::now();
                call(round)?;
                times.push(start.elapsed());
            }
            times.sort();
            eprintln!("{what}: median {:?}, 99 of 100 below {:?}", times[250], times[495]);
            Ok::<_, EmuError>(())
        };
        median("subflows, none of them", &mut |_| diagnosis.subflows().map(drop))?;
        manager.set_limits(2, 2)?;
        manager.add_endpoint(&second_subflow(3))?;
        let by_kernel = connection();
        await_event(&events, of_client(PmEventKind::SubflowEstablished, client_token(&events)));
        median("set_backup", &mut |round| manager.set_backup(&second_subflow(3), round % 2 == 0))?;
        median("subflows, 4 of them, socket at hand", &mut |_| diagnosis.subflows().map(drop))?;
        let one = &diagnosis.subflows()?[0];
        median("subflow", &mut |_| diagnosis.subflow(one.local, one.remote).map(drop))?;
        median("diagnose, 4 subflows", &mut |_| diagnose().map(drop))?;
        median("link_stats", &mut |_| Route::open()?.link_stats("lo").map(drop))?;
        manager.remove_endpoint(3, SECOND)?;
        drop(by_kernel);
        while events.next(Duration::from_millis(200))?.is_some() {}
        if userspace_path_manager() {
            let _by_program = connection();
            let token = client_token(&events);
            manager.create_subflow(token, &second_subflow(2), SERVER)?;
            let opened = await_event(&events, of_client(PmEventKind::SubflowEstablished, token));
            let (local, remote) = (opened.local.unwrap(), opened.remote.unwrap());
            let mut steer = |round| manager.set_subflow_backup(token, local, remote, round % 2 == 0);
            median("set_subflow_backup", &mut steer)?;
        }
        Ok(())
    });
}
