//! The answers to a task's DNS queries: the proxy's own address for every name, and no records of
//! any other type.
//!
//! A pure function of the query. No name leaves the proxy this way. Types that are not answered get
//! NODATA, because some clients treat any error as a broken name server and wait.

use std::net::Ipv4Addr;

use sandbox_proxy_protocol::{DnsAnswer, Event};

use super::message::{CLASS_IN, HEADER_BYTES, Header, Name, Reader, TYPE_A, TYPE_OPT, type_name};

/// How long clients may cache an answer, in seconds.
const TTL: u32 = 60;
/// The UDP message size that an answer's OPT record announces.
const UDP_BYTES: u16 = 1232;

/// A response and its record.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    /// The message to the client: at most 27 bytes longer than the query.
    pub(super) message: Vec<u8>,
    /// The record for the host.
    pub(super) event: Event,
}

/// The reply to `query`, for a proxy at `address`; `None` for messages that must not be answered at
/// all: those too short to have a header, and responses.
pub(super) fn reply(query: &[u8], address: Ipv4Addr) -> Option<Reply> {
    let mut reader = Reader::new(query);
    let header = reader.header()?;
    if header.flags & Header::RESPONSE != 0 {
        return None;
    }
    let question = if header.questions > 0 { read_question(&mut reader) } else { None };
    let answer = judge(header, question.as_ref(), address);
    let opt = has_opt(header, reader);
    let message = write(query, header, question.as_ref(), &answer, opt);
    let (kind, name) = match question {
        Some(question) => (type_name(question.kind), question.name.to_string()),
        None => ("-".to_owned(), "-".to_owned()),
    };
    Some(Reply { message, event: Event::Dns { kind, name, answer } })
}

/// The first question.
struct Question {
    name: Name,
    kind: u16,
    class: u16,
    /// The position after its last byte in the query.
    end: usize,
}

fn read_question(reader: &mut Reader<'_>) -> Option<Question> {
    let name = reader.plain_name()?;
    let kind = reader.word()?;
    let class = reader.word()?;
    let end = HEADER_BYTES + name.as_wire().len() + 4;
    Some(Question { name, kind, class, end })
}

fn judge(header: Header, question: Option<&Question>, address: Ipv4Addr) -> DnsAnswer {
    if header.flags & Header::OPCODE != 0 {
        return DnsAnswer::Notimp;
    }
    let Some(question) = question.filter(|_| header.questions == 1) else {
        return DnsAnswer::Formerr;
    };
    if question.class != CLASS_IN {
        return DnsAnswer::Refused;
    }
    if question.kind == TYPE_A && !question.name.is_root() {
        DnsAnswer::Address(address)
    } else {
        DnsAnswer::Nodata
    }
}

/// Whether the additional section, after everything that `reader` still has to skip, contains an
/// OPT record.
fn has_opt(header: Header, mut reader: Reader<'_>) -> bool {
    let before = u32::from(header.answers) + u32::from(header.authorities);
    let total = before + u32::from(header.additionals);
    for index in 0..total {
        let Some((kind, is_root)) = reader.skip_record() else {
            return false;
        };
        if index >= before && kind == TYPE_OPT && is_root {
            return true;
        }
    }
    false
}

fn write(
    query: &[u8],
    header: Header,
    question: Option<&Question>,
    answer: &DnsAnswer,
    opt: bool,
) -> Vec<u8> {
    // An answer to a question that was not understood does not repeat it.
    let question = match answer {
        DnsAnswer::Address(_) | DnsAnswer::Nodata | DnsAnswer::Refused => question,
        DnsAnswer::Notimp | DnsAnswer::Formerr => None,
    };
    let question_bytes = question.and_then(|question| query.get(HEADER_BYTES..question.end));
    let opt = opt && question_bytes.is_some();
    let code = match answer {
        DnsAnswer::Address(_) | DnsAnswer::Nodata => 0,
        DnsAnswer::Formerr => 1,
        DnsAnswer::Notimp => 4,
        DnsAnswer::Refused => 5,
    };
    let kept = header.flags & (Header::OPCODE | Header::RECURSION_DESIRED);
    let mut message = Vec::with_capacity(HEADER_BYTES + question_bytes.map_or(0, <[u8]>::len) + 27);
    Header {
        id: header.id,
        flags: Header::RESPONSE | Header::RECURSION_AVAILABLE | kept | code,
        questions: u16::from(question_bytes.is_some()),
        answers: u16::from(matches!(answer, DnsAnswer::Address(_))),
        authorities: 0,
        additionals: u16::from(opt),
    }
    .write(&mut message);
    message.extend_from_slice(question_bytes.unwrap_or_default());
    if let DnsAnswer::Address(address) = answer {
        // The owner is a pointer to the question's name.
        message.extend_from_slice(&[0xc0, 0x0c]);
        message.extend([TYPE_A, CLASS_IN].into_iter().flat_map(u16::to_be_bytes));
        message.extend_from_slice(&TTL.to_be_bytes());
        message.extend_from_slice(&4_u16.to_be_bytes());
        message.extend_from_slice(&address.octets());
    }
    if opt {
        message.push(0);
        message.extend([TYPE_OPT, UDP_BYTES].into_iter().flat_map(u16::to_be_bytes));
        message.extend_from_slice(&[0; 6]);
    }
    message
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROXY: Ipv4Addr = Ipv4Addr::new(10, 199, 1, 100);
    const OPT: &[u8] = b"\0\0\x29\x10\0\0\0\0\0\0\0";

    /// A query with `flags` and `counts`, then `rest`.
    fn query(flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
        let [questions, answers, authorities, additionals] = counts;
        let mut message = Vec::new();
        Header { id: 0xbeef, flags, questions, answers, authorities, additionals }.write(&mut message);
        message.extend_from_slice(rest);
        message
    }

    fn question(name: &[u8], kind: u16, class: u16) -> Vec<u8> {
        [name, &kind.to_be_bytes(), &class.to_be_bytes()].concat()
    }

    #[test]
    fn address_query_is_answered_with_the_proxy() {
        let asked = question(b"\x03ApI\x07example\x03com\0", 1, 1);
        let reply = reply(&query(0x0120, [1, 0, 0, 0], &asked), PROXY).unwrap();
        let answer = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\xc7\x01\x64";
        // RA is set, RD repeated, AD dropped; the letters keep their case.
        assert_eq!(reply.message, [&query(0x8180, [1, 1, 0, 0], &asked), &answer[..]].concat());
        let expected = Event::Dns {
            kind: "A".to_owned(),
            name: "ApI.example.com".to_owned(),
            answer: DnsAnswer::Address(PROXY),
        };
        assert_eq!(reply.event, expected);
    }

    #[test]
    fn every_kind_of_query_gets_its_answer() {
        let name = b"\x04evil\x03com\0";
        let long = [vec![63; 1], vec![b'a'; 63]].concat().repeat(4);
        let cases: [(&str, Vec<u8>, DnsAnswer, &str); 22] = [
            ("A", query(0, [1, 0, 0, 0], &question(name, 1, 1)), DnsAnswer::Address(PROXY), "A evil.com"),
            ("AAAA", query(0, [1, 0, 0, 0], &question(name, 28, 1)), DnsAnswer::Nodata, "AAAA evil.com"),
            ("TXT", query(0, [1, 0, 0, 0], &question(name, 16, 1)), DnsAnswer::Nodata, "TXT evil.com"),
            ("CNAME", query(0, [1, 0, 0, 0], &question(name, 5, 1)), DnsAnswer::Nodata, "CNAME evil.com"),
            ("HTTPS", query(0, [1, 0, 0, 0], &question(name, 65, 1)), DnsAnswer::Nodata, "HTTPS evil.com"),
            ("SVCB", query(0, [1, 0, 0, 0], &question(name, 64, 1)), DnsAnswer::Nodata, "SVCB evil.com"),
            ("ANY", query(0, [1, 0, 0, 0], &question(name, 255, 1)), DnsAnswer::Nodata, "ANY evil.com"),
            ("AXFR", query(0, [1, 0, 0, 0], &question(name, 252, 1)), DnsAnswer::Nodata, "AXFR evil.com"),
            ("IXFR", query(0, [1, 0, 0, 0], &question(name, 251, 1)), DnsAnswer::Nodata, "IXFR evil.com"),
            (
                "no name",
                query(0, [1, 0, 0, 0], &question(name, 4711, 1)),
                DnsAnswer::Nodata,
                "TYPE4711 evil.com",
            ),
            ("root", query(0, [1, 0, 0, 0], &question(b"\0", 1, 1)), DnsAnswer::Nodata, "A ."),
            ("status", query(0x1000, [1, 0, 0, 0], &question(name, 1, 1)), DnsAnswer::Notimp, "A evil.com"),
            ("update, broken", query(0x2800, [9, 0, 0, 0], b"\xc0"), DnsAnswer::Notimp, "- -"),
            ("no question", query(0, [0, 0, 0, 0], &question(name, 1, 1)), DnsAnswer::Formerr, "- -"),
            (
                "two questions",
                query(0, [2, 0, 0, 0], &question(name, 1, 1)),
                DnsAnswer::Formerr,
                "A evil.com",
            ),
            ("compressed", query(0, [1, 0, 0, 0], &question(b"\xc0\x0c", 1, 1)), DnsAnswer::Formerr, "- -"),
            ("label type", query(0, [1, 0, 0, 0], &question(b"\x41a\0", 1, 1)), DnsAnswer::Formerr, "- -"),
            ("over-long", query(0, [1, 0, 0, 0], &question(&long, 1, 1)), DnsAnswer::Formerr, "- -"),
            ("cut name", query(0, [1, 0, 0, 0], b"\x04evi"), DnsAnswer::Formerr, "- -"),
            ("cut class", query(0, [1, 0, 0, 0], b"\x01a\0\0\x01\0"), DnsAnswer::Formerr, "- -"),
            ("chaos", query(0, [1, 0, 0, 0], &question(name, 1, 3)), DnsAnswer::Refused, "A evil.com"),
            ("any class", query(0, [1, 0, 0, 0], &question(name, 1, 255)), DnsAnswer::Refused, "A evil.com"),
        ];
        for (case, query, expected, text) in cases {
            let reply = reply(&query, PROXY).unwrap();
            let Event::Dns { kind, name, answer } = reply.event else { panic!("{case}: no DNS record") };
            assert_eq!((&answer, format!("{kind} {name}").as_str()), (&expected, text), "{case}");
            let header = Reader::new(&reply.message).header().unwrap();
            let code = match expected {
                DnsAnswer::Address(_) | DnsAnswer::Nodata => 0,
                DnsAnswer::Formerr => 1,
                DnsAnswer::Notimp => 4,
                DnsAnswer::Refused => 5,
            };
            assert_eq!(header.flags & Header::RESPONSE_CODE, code, "{case}");
            assert_eq!(header.id, 0xbeef, "{case}");
            assert_eq!(header.answers, u16::from(matches!(expected, DnsAnswer::Address(_))), "{case}");
            assert_eq!(
                header.flags & Header::OPCODE,
                u16::from_be_bytes([query[2], query[3]]) & Header::OPCODE
            );
        }
    }

    #[test]
    fn short_messages_and_responses_get_no_answer() {
        let asked = query(0, [1, 0, 0, 0], &question(b"\x01a\0", 1, 1));
        for length in 0..HEADER_BYTES {
            assert_eq!(reply(&asked[..length], PROXY), None, "{length} bytes");
        }
        assert!(reply(&asked[..HEADER_BYTES], PROXY).is_some());
        assert_eq!(reply(&query(0x8000, [1, 0, 0, 0], &asked[12..]), PROXY), None, "a response");
    }

    #[test]
    fn opt_record_is_answered_with_one() {
        let asked = question(b"\x01a\0", 28, 1);
        let other = b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x01x";
        let cases: [(&str, [u16; 4], Vec<u8>, bool); 6] = [
            ("alone", [1, 0, 0, 1], OPT.to_vec(), true),
            ("behind others", [1, 1, 1, 2], [other, other, other, OPT].concat(), true),
            ("in the answers", [1, 1, 0, 0], OPT.to_vec(), false),
            ("not announced", [1, 0, 0, 0], OPT.to_vec(), false),
            ("not there", [1, 0, 0, 1], Vec::new(), false),
            ("owned by a name", [1, 0, 0, 1], [b"\x01a", OPT].concat(), false),
        ];
        for (case, counts, rest, expected) in cases {
            let message = reply(&query(0, counts, &[&asked, &rest[..]].concat()), PROXY).unwrap().message;
            let header = Reader::new(&message).header().unwrap();
            assert_eq!(header.additionals == 1, expected, "{case}");
            let opt: &[u8] = if expected { b"\0\0\x29\x04\xd0\0\0\0\0\0\0" } else { b"" };
            assert_eq!(&message[HEADER_BYTES + asked.len()..], opt, "{case}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(query in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some(reply) = reply(&query, PROXY) {
                prop_assert!(reply.message.len() <= query.len() + 27);
                prop_assert_eq!(super::reply(&reply.message, PROXY), None, "it never answers itself");
            }
        }

        #[test]
        fn any_question_is_survived(flags: u16, counts: [u16; 4], rest in proptest::collection::vec(any::<u8>(), 0..64)) {
            let counts = counts.map(|count| count % 3);
            let query = query(flags & !Header::RESPONSE, counts, &rest);
            let reply = reply(&query, PROXY).unwrap();
            prop_assert!(reply.message.len() <= query.len() + 27);
            prop_assert_eq!(super::reply(&reply.message, PROXY), None, "it never answers itself");
        }
    }
}
