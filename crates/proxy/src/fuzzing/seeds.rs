//! Every seed of every fuzz target, including former findings.

use fuzz_input::run_seeds;

use super::{
    authorization_header, chunk_stream, client_hello, dns_packet, http2_frames, policy_document,
    presigned_query, replacement_map, request_head, response_scrubber,
};

/// How many times each seed is mutated: a few bytes make a request, which takes an unoptimized
/// proxy a while.
const CHANGED: u32 = 20;

type Target = (&'static str, fn(&[u8]));

#[test]
fn every_seed_passes() {
    let targets: [Target; 10] = [
        ("authorization_header", authorization_header),
        ("chunk_stream", chunk_stream),
        ("client_hello", client_hello),
        ("dns_packet", dns_packet),
        ("http2_frames", http2_frames),
        ("policy_document", policy_document),
        ("presigned_query", presigned_query),
        ("replacement_map", replacement_map),
        ("request_head", request_head),
        ("response_scrubber", response_scrubber),
    ];
    for (name, target) in targets {
        run_seeds(name, CHANGED, target);
    }
}
