//! Every seed of every fuzz target, also those that were findings once.

use std::fs;
use std::path::Path;

use super::{
    authorization_header, chunk_stream, client_hello, dns_packet, http2_frames, policy_document,
    presigned_query, replacement_map, request_head, response_scrubber,
};

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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), targets.len());
    for (name, target) in targets {
        let mut seeds = 0;
        for seed in fs::read_dir(folder.join(name)).unwrap() {
            target(&fs::read(seed.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(seeds > 0, "{name} has no seed");
    }
}
