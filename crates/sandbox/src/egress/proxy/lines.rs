//! Assembles lines from arbitrary chunks.

/// A proxy's line is at most one record, whose longest part is a request's head.
const LONGEST: usize = 4 * 1024 * 1024;

/// Assembles lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// The lines that `chunk` completes, without their line endings.
    pub(super) fn add(&mut self, chunk: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut lines = Vec::new();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    self.pending.extend(end);
                    lines.push(std::mem::take(&mut self.pending));
                }
                None => self.pending.extend(piece),
            }
        }
        if self.pending.len() > LONGEST {
            Err(format!("it wrote a line of over {LONGEST} bytes"))
        } else {
            Ok(lines)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_in_any_split() {
        let text = b"one\n\ntwo\nthree";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let all: Vec<Vec<u8>> = text.chunks(size).flat_map(|chunk| lines.add(chunk).unwrap()).collect();
            assert_eq!(all, [&b"one"[..], b"", b"two"], "split every {size}");
            assert_eq!(lines.add(b"\n").unwrap(), [b"three"]);
        }
    }

    #[test]
    fn endless_line_is_an_error() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 64 * 1024];
        let most = LONGEST / chunk.len();
        assert!((0..most).all(|_| lines.add(&chunk).is_ok()));
        assert!(lines.add(&chunk).is_err());
    }
}
