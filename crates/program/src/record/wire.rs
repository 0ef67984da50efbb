//! The packets of `weft record`: a head that all have, then what their kind says, in network byte order.
//!
//! The first six bytes, magic number, version and kind, are the same in every version, so that two versions can tell.

use crate::failure::Failure;

const MAGIC: [u8; 4] = *b"weft";
/// Version of the packets.
pub const VERSION: u8 = 1;

/// Payload of a packet of load or of a train: what crosses every path unbroken (RFC 9000, section 14).
pub const FULL_BYTES: usize = 1200;
/// No answer to a peer whose address is not verified is longer than what it sent.
pub const HELLO_BYTES: usize = 64;
/// Length of a head.
pub const HEAD: usize = 15;

const COOKIE_BYTES: usize = 16;

/// Times are in nanoseconds.
pub type Ns = i64;
/// A second.
pub const SECOND_NS: Ns = 1_000_000_000;
/// A time that comes over the network is at most this, 36 years, so that differences of times fit.
const LATEST_NS: u64 = 1 << 60;

/// Name of a recording.
pub type Session = [u8; 8];
/// Token that only the peer's true address receives.
pub type Cookie = [u8; COOKIE_BYTES];

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// May I? Anybody may send it; padded.
    Hello = 1,
    /// Token that only the peer's true address receives.
    Cookie,
    /// The cookie again, and what is asked for.
    Start,
    /// It was granted, and when the listening end began, by its clock.
    Ready,
    /// It was not, and why.
    Refused,
    /// A probe.
    Probe,
    /// A packet of load.
    Load,
    /// Outcome of the load.
    Feedback,
    /// The records of some path, from this one on, please.
    Ask,
    /// These records.
    Records,
    /// The recording is over.
    Bye,
    /// The answer to a packet of another version.
    OtherVersion,
}

impl Kind {
    /// Every kind, by its number from 1 on.
    pub const ALL: [Self; 12] = [
        Self::Hello,
        Self::Cookie,
        Self::Start,
        Self::Ready,
        Self::Refused,
        Self::Probe,
        Self::Load,
        Self::Feedback,
        Self::Ask,
        Self::Records,
        Self::Bye,
        Self::OtherVersion,
    ];
}

/// A packet, taken apart as far as all have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Kind.
    pub kind: Kind,
    /// Number of its path.
    pub path: u8,
    /// Its recording.
    pub session: Session,
    /// Contents by its kind.
    pub body: &'a [u8],
}

/// Request of the end with the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of paths.
    pub paths: u8,
    /// Duration of the recording.
    pub seconds: u32,
    /// Is load asked for?
    pub load: bool,
    /// The most that either end sends on a path, in bytes of IP packets.
    pub cap: u64,
}

/// A probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its number.
    pub number: u32,
    /// Time when it left, by its sender's clock.
    pub sent_ns: Ns,
    /// 1 more than the number of the newest that its sender has got; 0 if there is none.
    pub echo: u32,
    /// Time when that one arrived.
    pub echo_arrived_ns: Ns,
}

/// Feedback of an end on the load of a path. It comes over all paths: the way back on that one may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The path.
    pub path: u8,
    /// By its own clock.
    pub now_ns: Ns,
    /// Number of packets.
    pub count: u32,
    /// 1 more than the number of the newest one.
    pub expected: u32,
    /// Time when that one left, by its sender's clock.
    pub sent_ns: Ns,
    /// For how long it waited on its way, compared with the one that was fastest.
    pub queue_ns: Ns,
    /// This end has sent all that the cap allows.
    pub is_spent: bool,
}

impl Plan {
    /// The body of a START.
    pub fn pack(&self, cookie: &[u8]) -> Vec<u8> {
        let mut body = cookie.to_vec();
        body.resize(COOKIE_BYTES, 0);
        body.extend([self.paths, u8::from(self.load)]);
        body.extend(self.seconds.to_be_bytes());
        body.extend(self.cap.to_be_bytes());
        body
    }

    /// Cookie and plan of a START.
    pub fn unpack(body: &[u8]) -> Option<(Cookie, Self)> {
        let mut body = Body(body);
        let cookie = body.take()?;
        let (paths, load) = (body.byte()?, body.byte()? != 0);
        Some((cookie, Self { paths, load, seconds: body.number()?, cap: u64::from_be_bytes(body.take()?) }))
    }
}

impl Probe {
    /// The probe as bytes.
    pub fn pack(&self) -> Vec<u8> {
        let mut body = self.number.to_be_bytes().to_vec();
        body.extend(time_bytes(self.sent_ns));
        body.extend(self.echo.to_be_bytes());
        body.extend(time_bytes(self.echo_arrived_ns));
        body
    }

    /// The probe in these bytes.
    pub fn unpack(body: &[u8]) -> Option<Self> {
        let mut body = Body(body);
        Some(Self {
            number: body.number()?,
            sent_ns: body.time()?,
            echo: body.number()?,
            echo_arrived_ns: body.time()?,
        })
    }
}

impl Feedback {
    /// Feedback of a path on which nothing has come yet.
    pub fn none(path: u8) -> Self {
        Self { path, now_ns: 0, count: 0, expected: 0, sent_ns: 0, queue_ns: 0, is_spent: false }
    }

    /// The feedback as bytes.
    pub fn pack(&self) -> Vec<u8> {
        let mut body = vec![self.path];
        body.extend(time_bytes(self.now_ns));
        body.extend(self.count.to_be_bytes());
        body.extend(self.expected.to_be_bytes());
        body.extend(time_bytes(self.sent_ns));
        body.extend(time_bytes(self.queue_ns));
        body.push(u8::from(self.is_spent));
        body
    }

    /// The feedback in these bytes.
    pub fn unpack(body: &[u8]) -> Option<Self> {
        let mut body = Body(body);
        Some(Self {
            path: body.byte()?,
            now_ns: body.time()?,
            count: body.number()?,
            expected: body.number()?,
            sent_ns: body.time()?,
            queue_ns: body.time()?,
            is_spent: body.byte()? != 0,
        })
    }
}

/// Rest of a body.
pub struct Body<'a>(pub &'a [u8]);

impl Body<'_> {
    /// The next bytes.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    /// The next number.
    pub fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    /// The next time.
    pub fn time(&mut self) -> Option<Ns> {
        self.take().map(|bytes| Ns::try_from(u64::from_be_bytes(bytes).min(LATEST_NS)).unwrap_or(0))
    }
}

/// A time as bytes: no clock is before its begin.
pub fn time_bytes(time: Ns) -> [u8; 8] {
    u64::try_from(time).unwrap_or(0).to_be_bytes()
}

/// Path and number of the first record of an ASK, which RECORDS begin with as well.
pub fn ask(path: u8, first: u32) -> Vec<u8> {
    let mut body = vec![path];
    body.extend(first.to_be_bytes());
    body
}

/// Number of a packet of load, and when it left.
pub fn load(number: u32, sent_ns: Ns) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.extend(time_bytes(sent_ns));
    body
}

/// A packet, with zeros at its end up to `size` bytes.
pub fn packed(kind: Kind, path: u8, session: Session, body: &[u8], size: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(size.max(HEAD + body.len()));
    data.extend(MAGIC);
    data.extend([VERSION, kind as u8, path]);
    data.extend(session);
    data.extend(body);
    data.resize(size.max(data.len()), 0);
    data
}

/// The packet in `data`; nothing if it is none of ours. Of another version it is told by [`other_version`].
pub fn unpacked(data: &[u8]) -> Option<Packet<'_>> {
    let mut rest = Body(data);
    if rest.take()? != MAGIC || rest.byte()? != VERSION {
        return None;
    }
    let kind = *Kind::ALL.get(usize::from(rest.byte()?).checked_sub(1)?)?;
    Some(Packet { kind, path: rest.byte()?, session: rest.take()?, body: rest.0 })
}

/// The version of a packet of `weft record`, if it is not this one.
pub fn other_version(data: &[u8]) -> Option<u8> {
    (data.len() >= HEAD && data[..4] == MAGIC && data[4] != VERSION).then(|| data[4])
}

/// The recording of a packet of any version, which is long enough.
pub fn session_of(data: &[u8]) -> Session {
    data.get(HEAD - 8..).and_then(|rest| rest.first_chunk().copied()).unwrap_or_default()
}

/// Message where the two ends do not understand each other.
pub fn versions_differ(theirs: u8) -> Failure {
    Failure::input(format!(
        "the other end's `weft record` speaks version {theirs} of its packets, this one {VERSION}: use the same release of \
         Weftway at both ends"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Session = *b"session!";

    #[test]
    fn a_packet_is_its_head_and_its_body() {
        let probe = Probe { number: 7, sent_ns: 5, echo: 3, echo_arrived_ns: 4 };
        let data = packed(Kind::Probe, 1, SESSION, &probe.pack(), 64);
        // Magic number, version, kind, path, session; then number, time, echo and its time.
        let head = b"weft\x01\x06\x01session!\0\0\0\x07\0\0\0\0\0\0\0\x05\0\0\0\x03\0\0\0\0\0\0\0\x04";
        assert_eq!((&data[..39], &data[39..]), (&head[..], &[0; 25][..]));
        let packet = unpacked(&data).unwrap();
        assert_eq!((packet.kind, packet.path, packet.session), (Kind::Probe, 1, SESSION));
        assert_eq!(Probe::unpack(packet.body), Some(probe));
    }

    #[test]
    fn every_kind_comes_back_and_what_it_says_has_its_length() {
        for (number, kind) in (1..).zip(Kind::ALL) {
            assert_eq!(packed(kind, 0, SESSION, &[], 0)[5], number);
            assert_eq!(unpacked(&packed(kind, 0, SESSION, &[], 0)).unwrap().kind, kind);
        }
        let plan = Plan { paths: 2, seconds: 10, load: true, cap: 1 << 40 };
        assert_eq!(Plan::unpack(&plan.pack(&[7; 16])), Some(([7; 16], plan)));
        assert_eq!(plan.pack(&[]).len(), 30);
        let told = Feedback { path: 1, now_ns: 2, count: 3, expected: 4, sent_ns: 5, queue_ns: 6, is_spent: true };
        assert_eq!((Feedback::unpack(&told.pack()), told.pack().len()), (Some(told), 34));
        assert_eq!((Plan::unpack(&[0; 29]), Feedback::unpack(&[0; 33]), Probe::unpack(&[0; 23])), (None, None, None));
        // What no clock says does not overflow.
        assert_eq!(Body(&[255; 8]).time(), Some(1 << 60));
    }

    #[test]
    fn what_is_no_packet_is_none() {
        for data in
            [&b""[..], b"weft", b"wefT\0\0\0\0\0\0\0\0\0\0\0", b"weft\x01\xff\0session!", b"weft\x01\0\0session!"]
        {
            assert_eq!((unpacked(data), other_version(data)), (None, None));
        }
    }

    #[test]
    fn another_version_is_told_by_the_first_bytes() {
        let data = b"weft\x02\0\0\0\0\0\0\0\0\0\0";
        assert_eq!((other_version(data), unpacked(data)), (Some(2), None));
    }
}
