//! Reads a name server's message as the answer to one query. A pure function; the message is
//! hostile.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::message::{CLASS_IN, Header, Name, Reader, ResourceRecord, TYPE_A, TYPE_AAAA, TYPE_CNAME};

/// The maximum number of addresses that are taken from one answer.
const ADDRESSES: usize = 16;

/// The family of the addresses that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    fn record_type(self) -> u16 {
        match self {
            Self::V4 => TYPE_A,
            Self::V6 => TYPE_AAAA,
        }
    }

    fn address(self, data: &[u8]) -> Option<IpAddr> {
        match self {
            Self::V4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into()),
            Self::V6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into()),
        }
    }
}

/// A query to a name server.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) id: u16,
    pub(super) name: Name,
    pub(super) family: Family,
}

/// The answer to a [`Query`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Response {
    /// The name's addresses, at least one, and how long they are valid, in seconds.
    Addresses { addresses: Vec<IpAddr>, ttl: u32 },
    /// Another name has to be queried; how long that is valid, in seconds, and how many aliases led
    /// there.
    Alias { target: Name, ttl: u32, hops: usize },
    /// The name has no address of this family.
    NoData,
    /// There is no such name.
    NoSuchName,
    /// The answer did not fit and has to be requested over TCP.
    Truncated,
    /// The server answered with an error; the response code.
    Failed(u16),
}

/// A message that is not a usable answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It does not answer this query: an answer to another one, or a forgery.
    Foreign,
    /// It answers this query, but is not readable.
    Malformed,
}

impl Query {
    /// The query on the wire. Recursion is desired.
    pub(super) fn to_message(&self) -> Vec<u8> {
        let mut message = Vec::new();
        Header {
            id: self.id,
            flags: Header::RECURSION_DESIRED,
            questions: 1,
            answers: 0,
            authorities: 0,
            additionals: 0,
        }
        .write(&mut message);
        message.extend_from_slice(self.name.as_wire());
        message.extend([self.family.record_type(), CLASS_IN].into_iter().flat_map(u16::to_be_bytes));
        message
    }

    /// Reads `message` as the answer to this query, following at most `hops` aliases. Only records
    /// of the queried name and of the names that it is an alias for count; anything else in the
    /// message is ignored.
    pub(super) fn read(&self, message: &[u8], hops: usize) -> Result<Response, Unusable> {
        let mut reader = Reader::new(message);
        let header = self.echo(&mut reader).ok_or(Unusable::Foreign)?;
        if header.flags & Header::TRUNCATED != 0 {
            return Ok(Response::Truncated);
        }
        match header.flags & Header::RESPONSE_CODE {
            0 => {}
            3 => return Ok(Response::NoSuchName),
            code => return Ok(Response::Failed(code)),
        }
        let mut records = Vec::new();
        for _ in 0..header.answers {
            let record = reader.record().ok_or(Unusable::Malformed)?;
            if record.class == CLASS_IN
                && (record.kind == TYPE_CNAME || record.kind == self.family.record_type())
            {
                records.push(record);
            }
        }
        self.follow(message, &records, hops).ok_or(Unusable::Malformed)
    }

    /// The header of a response that repeats this query's id and question.
    fn echo(&self, reader: &mut Reader<'_>) -> Option<Header> {
        let header = reader.header()?;
        let is_answer = header.flags & (Header::RESPONSE | Header::OPCODE) == Header::RESPONSE;
        let name = reader.plain_name()?;
        let question = (reader.word()?, reader.word()?);
        (is_answer
            && header.id == self.id
            && header.questions == 1
            && name.is_same(&self.name)
            && question == (self.family.record_type(), CLASS_IN))
            .then_some(header)
    }

    /// Follows the aliases from the queried name to addresses, as far as `records` lead.
    fn follow(&self, message: &[u8], records: &[ResourceRecord<'_>], hops: usize) -> Option<Response> {
        let mut current = self.name.clone();
        let mut ttl = u32::MAX;
        for hop in 0..=hops {
            let mut addresses = Vec::new();
            for record in
                records.iter().filter(|record| record.kind != TYPE_CNAME && record.owner.is_same(&current))
            {
                let address = self.family.address(record.data)?;
                ttl = ttl.min(record.ttl);
                if addresses.len() < ADDRESSES && !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            if !addresses.is_empty() {
                return Some(Response::Addresses { addresses, ttl });
            }
            let alias =
                records.iter().find(|record| record.kind == TYPE_CNAME && record.owner.is_same(&current));
            let Some(alias) = alias else {
                return Some(if hop == 0 {
                    Response::NoData
                } else {
                    Response::Alias { target: current, ttl, hops: hop }
                });
            };
            current = Reader::at(message, alias.data_at).name().filter(Name::is_host)?;
            ttl = ttl.min(alias.ttl);
        }
        // More aliases than allowed: the caller counts them and gives up.
        Some(Response::Alias { target: current, ttl, hops: hops + 1 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(family: Family) -> Query {
        Query { id: 7, name: Name::from_host("a.example").unwrap(), family }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(message in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(query(Family::V4).read(&message, 8), Err(Unusable::Foreign));
        }

        #[test]
        fn any_answer_section_is_survived(
            v6: bool,
            counts in 0_u16..4,
            records in proptest::collection::vec(
                // Owners, types and data that reach far into the reader: pointers to everywhere,
                // aliases, addresses.
                (0_u8..48, prop_oneof![Just(1_u8), Just(5), Just(28)], proptest::collection::vec(any::<u8>(), 0..18)),
                0..4,
            ),
            tail in proptest::collection::vec(any::<u8>(), 0..16),
        ) {
            let query = query(if v6 { Family::V6 } else { Family::V4 });
            let mut message = query.to_message();
            message[2] = 0x80;
            message[6..8].copy_from_slice(&counts.to_be_bytes());
            for (owner, kind, data) in records {
                message.extend_from_slice(&[0xc0, owner, 0, kind, 0, 1, 0, 0, 0, 60, 0, u8::try_from(data.len()).unwrap()]);
                message.extend_from_slice(&data);
            }
            message.extend_from_slice(&tail);
            match query.read(&message, 8) {
                Err(unusable) => prop_assert_eq!(unusable, Unusable::Malformed),
                Ok(Response::Addresses { addresses, .. }) => {
                    prop_assert!((1..=ADDRESSES).contains(&addresses.len()));
                    prop_assert!(addresses.iter().all(|address| address.is_ipv6() == v6));
                }
                Ok(Response::Alias { target, hops, .. }) => prop_assert!(target.is_host() && (1..=9).contains(&hops)),
                Ok(_) => {}
            }
        }
    }
}
