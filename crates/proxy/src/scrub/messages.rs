//! gRPC and Connect compress each message of a stream for itself, within a body that is not
//! compressed.
//!
//! Such messages are not decoded here: a client is taken to understand none but plain ones, and an
//! answer with others is refused. A server says in the head which coding its messages have; without
//! that the client cannot decode them either.

use http::{HeaderMap, HeaderValue};

/// What a client says that it can decode.
const ACCEPTED: [&str; 2] = ["grpc-accept-encoding", "connect-accept-encoding"];
/// What messages are encoded with.
const CODINGS: [&str; 2] = ["grpc-encoding", "connect-content-encoding"];

/// Lets a request ask for plain messages only, if it says anything of them. One that does already
/// is not changed.
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
