//! Runs a fuzz target on its seeds and on mutations of them.

use std::fs;
use std::path::Path;

/// Delimiters of various formats.
const SPECIAL: &[u8] = b"\0\n\r\t \"'\\/.,:;=#[]{}<>-~\x7f\x80\xef\xff";

/// Runs `target` with each seed in `fuzz/seeds/NAME`, which include former findings, and then with
/// each seed mutated in about `changed` places. The mutations are deterministic.
///
/// # Panics
///
/// If `target` panics, or if there is no seed.
pub fn run_seeds(name: &str, changed: u32, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{name} has no seed");
    let mut random = 0x9e37_79b9_7f4a_7c15;
    for path in paths {
        let seed = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        target(&seed);
        for _ in 0..changed {
            target(&mutant(&seed, &mut random));
        }
    }
}

/// `seed` with a few bytes replaced, added, removed or repeated.
fn mutant(seed: &[u8], random: &mut u64) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=below(random, 3) {
        let at = below(random, data.len() + 1);
        let special = SPECIAL.get(below(random, SPECIAL.len())).copied().unwrap_or_default();
        match below(random, 5) {
            0 => data.truncate(at),
            1 => data.insert(at, special),
            2 if at < data.len() => drop(data.remove(at)),
            3 => {
                let end = data.len().min(at + 1 + below(random, 16));
                data.extend_from_within(at..end);
            }
            _ => {
                if let Some(byte) = data.get_mut(at) {
                    *byte = special;
                }
            }
        }
    }
    data
}

/// A pseudo-random number below `end`.
fn below(random: &mut u64, end: usize) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    usize::try_from(*random % end.max(1) as u64).unwrap_or_default()
}
