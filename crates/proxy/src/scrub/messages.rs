//! gRPC and Connect compress each message of a stream individually, within a body that is not
//! itself compressed.
//!
//! The proxy does not decode such messages: every client is treated as one that accepts only
//! uncompressed messages, and an answer with others is refused. A server names the coding of its
//! messages in the head; without that the client could not decode them either.

use http::{HeaderMap, HeaderValue};

/// Headers that list the codings a client can decode.
const ACCEPTED: [&str; 2] = ["grpc-accept-encoding", "connect-accept-encoding"];
/// Headers that name the coding of the messages.
const CODINGS: [&str; 2] = ["grpc-encoding", "connect-content-encoding"];

/// Makes a request that lists codings of messages ask for uncompressed ones only. A request that
/// already does is not changed.
pub(super) fn ask_for_plain(headers: &mut HeaderMap) {
    for name in ACCEPTED {
        if names_coding(headers, name) {
            headers.insert(name, HeaderValue::from_static("identity"));
        }
    }
}

/// Whether the messages of the answer with this head are encoded.
pub(super) fn are_encoded(headers: &HeaderMap) -> bool {
    CODINGS.iter().any(|name| names_coding(headers, name))
}

fn names_coding(headers: &HeaderMap, name: &str) -> bool {
    let lines = headers.get_all(name).into_iter();
    let mut members = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    members.any(|member| {
        let member = member.trim_ascii();
        !member.is_empty() && !member.eq_ignore_ascii_case(b"identity")
    })
}
