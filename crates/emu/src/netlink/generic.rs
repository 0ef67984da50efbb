//! Generic netlink: a family of commands that has a name, and a number that the kernel gives it at its start.

use std::io::Cursor;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use neli::attr::Attribute;
use neli::consts::genl::{CtrlAttr, CtrlAttrMcastGrp, CtrlCmd, Index};
use neli::consts::nl::{GenlId, NlmF};
use neli::consts::socket::NlFamily;
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, Nlattr, NlattrBuilder};
use neli::types::{Buffer, GenlBuffer};
use neli::{FromBytes, FromBytesWithInput, Size, ToBytes};

use super::socket::{Refusal, Socket};
use crate::EmuError;

/// Attributes, one after the other or nested in another.
pub(super) type Attributes = GenlBuffer<u16, Buffer>;

/// A message of a family: a command and attributes.
pub(super) type Message = Genlmsghdr<u8, u16>;

/// A socket on which one family is spoken.
pub(super) struct Family {
    socket: Socket,
    id: u16,
    groups: Vec<(String, u32)>,
}

/// Description of a family by the kernel's controller.
type Description = Genlmsghdr<CtrlCmd, CtrlAttr>;

impl Family {
    /// Finds the family. The error `ENOENT` says that the kernel lacks it.
    pub fn open(name: &str) -> Result<Self, EmuError> {
        let socket = Socket::open(NlFamily::Generic)?;
        let step = || format!("finding the netlink family {name}");
        let answer = socket.get(GenlId::Ctrl.into(), question(name)).map_err(|refusal| refusal.of(step()))?;
        let description = parse::<Description>(&answer).ok_or_else(|| malformed(step()))?;
        let id = description.attrs().get_attr_handle().get_attr_payload_as(CtrlAttr::FamilyId);
        Ok(Self { socket, id: id.map_err(|_| malformed(step()))?, groups: groups(&description) })
    }

    /// Sends a command and waits until it is carried out.
    pub fn call(&self, command: u8, attributes: Attributes) -> Result<(), Refusal> {
        self.socket.request(self.id, NlmF::empty(), message(command, attributes))
    }

    /// All objects that a command lists.
    pub fn dump(&self, command: u8) -> Result<Vec<Message>, Refusal> {
        let answers = self.socket.dump(self.id, message(command, Attributes::new()))?;
        Ok(answers.iter().filter_map(parse).collect())
    }

    /// Joins a multicast group.
    pub fn subscribe(&self, group: &str, capacity: usize) -> Result<(), EmuError> {
        let step = || format!("subscribing to {group}");
        let found = self.groups.iter().find(|(name, _)| name == group);
        let (_, id) = found.ok_or_else(|| malformed(step()))?;
        self.socket.subscribe(*id, capacity).map_err(EmuError::system(step()))
    }

    /// The next message of a group, if one comes within `timeout`.
    pub fn next(&self, timeout: Duration) -> Result<Option<Message>, EmuError> {
        let message = self.socket.next(timeout).map_err(EmuError::system("receiving a netlink message"))?;
        Ok(message.as_ref().and_then(parse))
    }
}

impl AsFd for Family {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An attribute.
pub(super) fn attribute(kind: u16, value: impl Size + ToBytes) -> Nlattr<u16, Buffer> {
    build(kind, false, value)
}

/// An attribute that holds others.
pub(super) fn nested(kind: u16, attributes: Attributes) -> Nlattr<u16, Buffer> {
    build(kind, true, attributes)
}

/// A value of fixed size out of attributes; `None` where it is absent or too short.
pub(super) fn value<T: FromBytes>(attributes: &Attributes, kind: u16) -> Option<T> {
    find(attributes, kind)?.get_payload_as().ok()
}

/// Attributes in a nested attribute; nothing where it is absent.
pub(super) fn inside(attributes: &Attributes, kind: u16) -> Option<Attributes> {
    find(attributes, kind)?.get_payload_as_with_len().ok()
}

/// An attribute of a kind.
pub(super) fn find(attributes: &Attributes, kind: u16) -> Option<&Nlattr<u16, Buffer>> {
    attributes.iter().find(|attribute| *attribute.nla_type().nla_type() == kind)
}

fn build(kind: u16, nested: bool, value: impl Size + ToBytes) -> Nlattr<u16, Buffer> {
    let kind = AttrTypeBuilder::default().nla_type(kind).nla_nested(nested).build().expect("the kind is set");
    NlattrBuilder::default().nla_type(kind).nla_payload(value).build().expect("kind and value are set")
}

fn message(command: u8, attributes: Attributes) -> Message {
    let header = GenlmsghdrBuilder::default().cmd(command).version(1);
    header.attrs(attributes).build().expect("command and version are set")
}

/// Question to the controller about a family.
fn question(name: &str) -> Message {
    message(CtrlCmd::Getfamily.into(), [attribute(CtrlAttr::FamilyName.into(), name)].into_iter().collect())
}

fn groups(description: &Description) -> Vec<(String, u32)> {
    let attributes = description.attrs().get_attr_handle();
    let Ok(groups) = attributes.get_nested_attributes::<Index>(CtrlAttr::McastGroups) else { return Vec::new() };
    let group = |item: &Nlattr<Index, Buffer>| {
        let item = item.get_attr_handle::<CtrlAttrMcastGrp>().ok()?;
        let name = item.get_attr_payload_as_with_len(CtrlAttrMcastGrp::Name).ok()?;
        Some((name, item.get_attr_payload_as(CtrlAttrMcastGrp::Id).ok()?))
    };
    groups.iter().filter_map(group).collect()
}

fn parse<T: FromBytesWithInput<Input = usize>>(answer: &Buffer) -> Option<T> {
    T::from_bytes_with_input(&mut Cursor::new(answer), answer.len()).ok()
}

fn malformed(step: String) -> EmuError {
    EmuError::System { step, source: std::io::ErrorKind::InvalidData.into() }
}
