//! Encodes rules for the kernel: one atomic batch of netlink messages of `nf_tables`.
//!
//! Numbers are in network byte order, except for those of headers and of interfaces, which are in
//! the machine's. Names are those of `linux/netlink.h`, `linux/netfilter/nfnetlink.h` and
//! `linux/netfilter/nf_tables.h`.

use crate::rule::{Condition, Rule, Verdict};

/// The kernel's answer: an error or success.
pub(crate) const NLMSG_ERROR: u16 = 2;
/// Length, type, flags, sequence number, sender.
pub(crate) const HEADER: usize = 16;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
const APPEND: u16 = 0x800;
const NESTED: u16 = 0x8000;

const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;

const FAMILY_NONE: u8 = 0;
/// IPv4 and IPv6.
const FAMILY_INET: u8 = 1;
const FAMILY_IPV4: u8 = 2;

/// The receiver of packets (`linux/netfilter/nfnetlink_log.h`).
const LOG_CONFIG: u16 = 4 << 8 | 1;
const BIND: u8 = 1;

/// Locally sent packets.
const HOOK_OUTPUT: u32 = 3;
const NAME: &str = "sandbox";
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const LIMIT_PACKETS: u32 = 0;
/// The registers for a verdict, and for compared values.
const VERDICT_REGISTER: u32 = 0;
const REGISTER: u32 = 1;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const META_OUTPUT_INTERFACE: u32 = 5;
const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
/// Offsets of the destination address in an IPv4 header, and of the destination port in those of
/// TCP and UDP.
const ADDRESS_OFFSET: u32 = 16;
const PORT_OFFSET: u32 = 2;

/// The messages, which the kernel answers with its errors, followed by an acknowledgement of the
/// last rule.
pub(crate) fn batch(rules: &[Rule]) -> Vec<u8> {
    let mut batch = Batch { bytes: Vec::new(), sequence: 0 };
    let table = text(1, NAME);
    let hook = [number(1, HOOK_OUTPUT), number(2, 0)].concat();
    let chain = [table.clone(), text(3, NAME), nested(4, &hook), number(5, DROP), text(7, "filter")];
    batch.frame(BATCH_BEGIN);
    batch.ask(NEW_TABLE, EXCLUSIVE, &table);
    batch.ask(NEW_CHAIN, EXCLUSIVE, &chain.concat());
    for (behind, rule) in rules.iter().enumerate().map(|(at, rule)| (rules.len() - at - 1, rule)) {
        let rule = [table.clone(), text(2, NAME), nested(4, &expressions(rule))];
        let acknowledge = if behind == 0 { ACKNOWLEDGE } else { 0 };
        batch.ask(NEW_RULE, APPEND | acknowledge, &rule.concat());
    }
    batch.frame(BATCH_END);
    batch.bytes
}

/// The message that makes its sender the receiver of packets reported to `group`, which the kernel
/// acknowledges.
pub(crate) fn listening(group: u16) -> Vec<u8> {
    let mut batch = Batch { bytes: Vec::new(), sequence: 0 };
    batch.push(LOG_CONFIG, REQUEST | ACKNOWLEDGE, FAMILY_NONE, group, &attribute(1, &[BIND]));
    batch.bytes
}

struct Batch {
    bytes: Vec<u8>,
    sequence: u32,
}

impl Batch {
    fn frame(&mut self, kind: u16) {
        self.push(kind, REQUEST, FAMILY_NONE, SUBSYSTEM, &[]);
    }

    fn ask(&mut self, kind: u16, flags: u16, attributes: &[u8]) {
        self.push(kind, REQUEST | CREATE | flags, FAMILY_INET, 0, attributes);
    }

    fn push(&mut self, kind: u16, flags: u16, family: u8, resource: u16, attributes: &[u8]) {
        let length = u32::try_from(HEADER + 4 + attributes.len()).unwrap_or(u32::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        self.bytes.extend(self.sequence.to_ne_bytes());
        self.sequence += 1;
        self.bytes.extend(0_u32.to_ne_bytes());
        // Version 0.
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
        self.bytes.extend(attributes);
    }
}

fn expressions(rule: &Rule) -> Vec<u8> {
    let mut all: Vec<u8> = rule.conditions.iter().flat_map(condition).collect();
    all.extend(match rule.verdict {
        Verdict::Drop => decide(DROP),
        Verdict::Accept => decide(ACCEPT),
        Verdict::Report { group, bytes } => report(group, bytes),
    });
    all
}

fn decide(code: u32) -> Vec<u8> {
    let verdict = nested(2, &number(1, code));
    expression("immediate", &[number(1, VERDICT_REGISTER), nested(2, &verdict)])
}

/// Reports the first packet of a second, immediately instead of in batches.
fn report(group: u16, bytes: u32) -> Vec<u8> {
    let (once, in_a_second) = (attribute(1, &1_u64.to_be_bytes()), attribute(2, &1_u64.to_be_bytes()));
    let limit = expression("limit", &[once, in_a_second, number(3, 1), number(4, LIMIT_PACKETS)]);
    let at_once = attribute(4, &1_u16.to_be_bytes());
    let log = expression("log", &[attribute(1, &group.to_be_bytes()), number(3, bytes), at_once]);
    [limit, log].concat()
}

fn condition(condition: &Condition) -> Vec<u8> {
    match condition {
        Condition::OtherFamily => [meta(META_FAMILY), compare(NOT_EQUAL, &[FAMILY_IPV4])].concat(),
        Condition::Through(interface) => {
            [meta(META_OUTPUT_INTERFACE), compare(EQUAL, &interface.to_ne_bytes())].concat()
        }
        Condition::To(network) => [
            payload(NETWORK_HEADER, ADDRESS_OFFSET, 4),
            masked(network.netmask().octets()),
            compare(EQUAL, &network.network().octets()),
        ]
        .concat(),
        Condition::Protocol(protocol) => [meta(META_PROTOCOL), compare(EQUAL, &[*protocol])].concat(),
        Condition::Port(port) => {
            [payload(TRANSPORT_HEADER, PORT_OFFSET, 2), compare(EQUAL, &port.to_be_bytes())].concat()
        }
        Condition::Header { offset, mask, value } => {
            [payload(TRANSPORT_HEADER, *offset, 4), masked(*mask), compare(EQUAL, value)].concat()
        }
    }
}

fn meta(key: u32) -> Vec<u8> {
    expression("meta", &[number(1, REGISTER), number(2, key)])
}

fn payload(header: u32, offset: u32, length: u32) -> Vec<u8> {
    expression("payload", &[number(1, REGISTER), number(2, header), number(3, offset), number(4, length)])
}

fn masked(mask: [u8; 4]) -> Vec<u8> {
    let (mask, toggled) = (nested(4, &attribute(1, &mask)), nested(5, &attribute(1, &[0; 4])));
    expression("bitwise", &[number(1, REGISTER), number(2, REGISTER), number(3, 4), mask, toggled])
}

fn compare(operator: u32, value: &[u8]) -> Vec<u8> {
    expression("cmp", &[number(1, REGISTER), number(2, operator), nested(3, &attribute(1, value))])
}

/// An element of the list of a rule's expressions.
fn expression(name: &str, data: &[Vec<u8>]) -> Vec<u8> {
    nested(1, &[text(1, name), nested(2, &data.concat())].concat())
}

fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(kind | NESTED, attributes)
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

/// Length, kind, value, and zeros up to a multiple of four, which are not part of the length.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length, kind, flags and sequence number of each message.
    fn heads(mut bytes: &[u8]) -> Vec<(usize, u16, u16, u32)> {
        let mut heads = Vec::new();
        while !bytes.is_empty() {
            let long = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
            let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
            let length = usize::try_from(long(0)).unwrap();
            heads.push((length, short(4), short(6), long(8)));
            bytes = &bytes[length..];
        }
        heads
    }

    #[test]
    fn batch_is_framed_and_its_last_rule_is_acknowledged() {
        let network = "10.0.0.0/8".parse().unwrap();
        let rule = Rule { conditions: vec![Condition::To(network)], verdict: Verdict::Accept };
        let heads = heads(&batch(&[rule.clone(), rule]));
        assert!(heads.iter().all(|(length, ..)| length % 4 == 0));
        let kinds: Vec<_> =
            heads.into_iter().map(|(_, kind, flags, sequence)| (kind, flags, sequence)).collect();
        assert_eq!(
            kinds,
            [
                (0x10, 1, 0),
                (0xa00, 0x601, 1),
                (0xa03, 0x601, 2),
                (0xa06, 0xc01, 3),
                (0xa06, 0xc05, 4),
                (0x11, 1, 5),
            ]
        );
    }

    #[test]
    fn attribute_is_aligned_and_its_length_excludes_the_padding() {
        assert_eq!(text(3, "ab"), [7_u16.to_ne_bytes(), 3_u16.to_ne_bytes(), *b"ab", [0, 0]].concat());
        assert_eq!(number(1, 5).len(), 8);
        assert_eq!(nested(2, &number(1, 5))[..4], [12_u16.to_ne_bytes(), 0x8002_u16.to_ne_bytes()].concat());
    }
}
