//! Search for many needles in one pass.
//!
//! Every needle has at least [`WINDOW`] bytes, and its first [`WINDOW`] bytes represent it: a table
//! holds for each block of three bytes its least distance from the end of such a prefix, that is,
//! how far the window may move when it ends in this block (the Wu-Manber algorithm). Most text is
//! skipped six bytes at a time, and adding needles to a table is cheap enough to do per request.

use std::collections::HashMap;
use std::sync::Arc;

use zeroize::Zeroizing;

/// The minimum length of a needle.
pub(super) const WINDOW: usize = 8;
const BLOCK: usize = 3;
/// How far the window moves at a block that no prefix contains: the number of blocks in a window.
const FAR: u8 = 6;
/// Small enough for the L1 cache, and large enough that few blocks of ordinary text share a slot
/// with a block of a needle.
const TABLE_LOG: u32 = 14;
/// How many windows are looked at together, as if none of them held a block of a needle.
const TOGETHER: usize = 8;
/// The bytes of that many windows, each [`FAR`] bytes after the one before.
const SPAN: usize = (TOGETHER - 1) * FAR as usize + WINDOW;

/// A pattern to search for and its replacement.
pub(super) struct Needle {
    /// At least [`WINDOW`] bytes.
    pub(super) pattern: Zeroizing<Vec<u8>>,
    /// Known to the container.
    pub(super) replacement: Vec<u8>,
}

/// A searchable set of needles.
#[derive(Clone)]
pub(super) struct Index {
    shifts: Box<[u8; 1 << TABLE_LOG]>,
    /// By the last block of the window; the longest first.
    buckets: HashMap<usize, Vec<Arc<Needle>>>,
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// Creates an index that finds nothing.
    pub(super) fn new() -> Self {
        Self { shifts: Box::new([FAR; 1 << TABLE_LOG]), buckets: HashMap::new() }
    }

    /// Adds a needle, unless it is too short or there is one with the same pattern, and returns
    /// whether it was added.
    pub(super) fn add(&mut self, needle: Needle) -> bool {
        let Some(beginning) = needle.pattern.get(..WINDOW) else {
            return false;
        };
        let mut last = 0;
        for (distance, block) in (0..FAR).rev().zip(beginning.windows(BLOCK)) {
            last = hash(last_block(block));
            if let Some(shift) = self.shifts.get_mut(last) {
                *shift = distance.min(*shift);
            }
        }
        let bucket = self.buckets.entry(last).or_default();
        if bucket.iter().any(|other| other.pattern == needle.pattern) {
            return false;
        }
        let place = bucket.partition_point(|other| other.pattern.len() >= needle.pattern.len());
        bucket.insert(place, Arc::new(needle));
        true
    }

    /// Finds the first place in `text`, from `from` on and before `until`, at which a needle
    /// begins, and the longest needle that begins there.
    pub(super) fn find(&self, text: &[u8], from: usize, until: usize) -> Option<(usize, &Needle)> {
        let mut place = from;
        while place < until {
            if let Some(span) = text.get(place..).and_then(<[u8]>::first_chunk) {
                let far = self.skip(span);
                place += far;
                if far == usize::from(FAR) * TOGETHER || place >= until {
                    continue;
                }
            }
            let hash = hash(last_block(text.get(place..place + WINDOW)?));
            match self.shifts.get(hash) {
                Some(0) => {
                    if let Some(needle) = self.at(hash, text.get(place..)?) {
                        return Some((place, needle));
                    }
                    place += 1;
                }
                Some(shift) => place += usize::from(*shift),
                None => place += 1,
            }
        }
        None
    }

    /// How far the window may move from the beginning of `span`. Unlike a single step, the lookups do not
    /// wait for each other.
    fn skip(&self, span: &[u8; SPAN]) -> usize {
        let mut near = 1_u32 << TOGETHER;
        for (number, window) in span.windows(WINDOW).step_by(usize::from(FAR)).enumerate() {
            near |= u32::from(self.shifts.get(hash(last_block(window))) != Some(&FAR)) << number;
        }
        usize::from(FAR) * near.trailing_zeros() as usize
    }

    fn at(&self, hash: usize, text: &[u8]) -> Option<&Needle> {
        let bucket = self.buckets.get(&hash)?;
        bucket.iter().map(Arc::as_ref).find(|needle| text.starts_with(&needle.pattern))
    }
}

/// The three bytes at the end of a window or of a part of one, as a number.
fn last_block(window: &[u8]) -> u32 {
    match window {
        // One read of four bytes.
        [.., before, a, b, c] => u32::from_le_bytes([*before, *a, *b, *c]) >> 8,
        [a, b, c] => u32::from_le_bytes([*a, *b, *c, 0]),
        _ => 0,
    }
}

/// The slot of a block in the table: the upper bits of a product mix all bits (Knuth's
/// multiplicative hashing).
fn hash(block: u32) -> usize {
    (block.wrapping_mul(0x9E37_79B1) >> (u32::BITS - TABLE_LOG)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(patterns: &[&str]) -> Index {
        let mut index = Index::new();
        for pattern in patterns {
            index.add(Needle {
                pattern: Zeroizing::new(pattern.as_bytes().to_vec()),
                replacement: Vec::new(),
            });
        }
        index
    }

    fn naive(patterns: &[&str], text: &[u8], from: usize, until: usize) -> Option<(usize, Vec<u8>)> {
        (from..until.min(text.len())).find_map(|place| {
            let mut here: Vec<&str> = patterns.to_vec();
            here.retain(|pattern| text[place..].starts_with(pattern.as_bytes()));
            let longest = here.iter().max_by_key(|pattern| pattern.len())?;
            Some((place, longest.as_bytes().to_vec()))
        })
    }

    #[test]
    fn short_and_repeated_needles_are_not_added() {
        let mut index = index(&["12345678"]);
        for (pattern, expected) in [("1234567", false), ("12345678", false), ("123456789", true)] {
            let needle =
                Needle { pattern: Zeroizing::new(pattern.as_bytes().to_vec()), replacement: Vec::new() };
            assert_eq!(index.add(needle), expected, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn index_agrees_with_a_naive_search(
            patterns in prop::collection::vec("[ab]{8,12}", 0..6),
            text in "[abc]{0,60}[a-h]{0,100}[ab]{0,60}",
            from in 0_usize..200,
            length in 0_usize..200,
        ) {
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            let text = text.as_bytes();
            let from = from.min(text.len());
            let found = index(&patterns)
                .find(text, from, from + length)
                .map(|(place, needle)| (place, needle.pattern.to_vec()));
            prop_assert_eq!(found, naive(&patterns, text, from, from + length));
        }
    }
}
