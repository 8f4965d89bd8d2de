//! Splits data at arbitrary positions, as a network does.

/// Enough for every byte of the longest input.
const MOST: usize = 4096;

/// Splits `data` into pieces of `sizes`, cyclically. Without a positive size there is one piece;
/// after very many pieces the rest is one.
#[must_use]
pub fn pieces<'a>(data: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    if sizes.iter().all(|size| *size == 0) {
        return vec![data];
    }
    let mut pieces = Vec::new();
    let mut rest = data;
    for size in sizes.iter().cycle() {
        if rest.is_empty() || pieces.len() == MOST {
            break;
        }
        let (piece, after) = rest.split_at_checked(*size).unwrap_or((rest, &[]));
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}
