//! Fuzz targets: one function for each kind of hostile bytes, with the properties that must hold
//! for all of them.
//!
//! They exist only with the feature `fuzzing` and in unit tests, which run every seed. A property
//! that does not hold causes a panic. The programs that call these functions are in the folder
//! `fuzz` of the repository.

mod authorization_header;
mod chunk_stream;
mod head;
mod peer;
mod planted;
mod policy_document;
mod presigned_query;
mod real_values;
mod replacement_map;
mod response_scrubber;
mod signed_request;
mod upstream_body;

#[cfg(test)]
mod seeds;

pub(crate) use self::peer::{Peer, run};

pub use self::authorization_header::authorization_header;
pub use self::chunk_stream::chunk_stream;
pub use self::policy_document::policy_document;
pub use self::presigned_query::presigned_query;
pub use self::replacement_map::replacement_map;
pub use self::response_scrubber::response_scrubber;
pub use crate::dns::fuzzed::dns_packet;
pub use crate::http::fuzzed_frames::http2_frames;
pub use crate::http::fuzzed_head::request_head;
pub use crate::tls::fuzzed::client_hello;
