//! Any DNS packet, for the fuzzers: see `fuzzing`.

use std::net::Ipv4Addr;

use fuzz_input::Input;

use super::message::{HEADER_BYTES, Name};
use super::responder::reply;
use super::response::{Family, Query, Response};

const PROXY: Ipv4Addr = Ipv4Addr::new(10, 199, 1, 100);
/// The resolver's limit.
const HOPS: usize = 8;
/// The maximum number of addresses in one answer.
const ADDRESSES: usize = 16;

/// The first byte selects the reader of the others: the responder, or the resolver, either as the
/// whole answer to its query or as the part of the answer after the question.
///
/// # Panics
///
/// If a reply is longer than it may be, or would itself be answered; if an answer yields something
/// that was not asked for.
pub fn dns_packet(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let packet = input.rest();
    let family = if choice & 4 == 0 { Family::V4 } else { Family::V6 };
    match choice & 3 {
        0 | 1 => query(packet),
        2 => answer(packet, family),
        _ => {
            let mut whole = question(family).to_message();
            let (counts, records) = packet.split_at_checked(2).unwrap_or((&[0, 1], packet));
            if let Some(flags) = whole.get_mut(2..4) {
                flags.copy_from_slice(&[0x80, 0]);
            }
            if let Some(answers) = whole.get_mut(6..8) {
                answers.copy_from_slice(counts);
            }
            whole.extend_from_slice(records);
            answer(&whole, family);
        }
    }
}

fn query(packet: &[u8]) {
    let Some(reply) = reply(packet, PROXY) else {
        return;
    };
    assert!(reply.message.len() <= packet.len() + 27, "a reply is too long");
    assert_eq!(reply.message.get(..2), packet.get(..2), "a reply has another id");
    assert!(reply.message.len() >= HEADER_BYTES, "a reply has no header");
    assert!(super::responder::reply(&reply.message, PROXY).is_none(), "a reply is answered");
}

fn question(family: Family) -> Query {
    let name = Name::from_host("a.example").unwrap_or_else(|| panic!("a host name"));
    Query { id: 7, name, family }
}

fn answer(packet: &[u8], family: Family) {
    match question(family).read(packet, HOPS) {
        Ok(Response::Addresses { addresses, .. }) => {
            assert!((1..=ADDRESSES).contains(&addresses.len()), "wrong number of addresses");
            let fits = |address: &std::net::IpAddr| address.is_ipv6() == (family == Family::V6);
            assert!(addresses.iter().all(fits), "an address of the other family");
        }
        Ok(Response::Alias { target, hops, .. }) => {
            assert!(target.is_host(), "an alias that is not a host name");
            assert!((1..=HOPS + 1).contains(&hops), "wrong number of aliases");
        }
        Ok(Response::NoData | Response::NoSuchName | Response::Truncated | Response::Failed(_)) | Err(_) => {}
    }
}
