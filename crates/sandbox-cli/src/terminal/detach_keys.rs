//! The keys that detach from a run.

use std::str::FromStr;

/// Keys that are not passed on when typed in sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetachKeys {
    keys: Vec<u8>,
    /// How many of them came last and are buffered.
    held: usize,
}

impl Default for DetachKeys {
    fn default() -> Self {
        // Ctrl-P Ctrl-Q, as in podman and docker.
        Self { keys: vec![0x10, 0x11], held: 0 }
    }
}

impl DetachKeys {
    /// The part of `typed` that the program gets, and whether the sequence is complete.
    pub(crate) fn pass(&mut self, typed: &[u8]) -> (Vec<u8>, bool) {
        let mut passed = Vec::with_capacity(typed.len());
        for key in typed {
            if self.keys.get(self.held) == Some(key) {
                self.held += 1;
                if self.held == self.keys.len() {
                    self.held = 0;
                    return (passed, true);
                }
                continue;
            }
            passed.extend(self.keys.iter().take(self.held));
            self.held = 0;
            if self.keys.first() == Some(key) {
                self.held = 1;
            } else {
                passed.push(*key);
            }
        }
        (passed, false)
    }
}

impl FromStr for DetachKeys {
    type Err = String;

    /// `ctrl-p,ctrl-q`, or characters, separated by commas; empty for no keys.
    fn from_str(text: &str) -> Result<Self, String> {
        let key = |name: &str| match (name.strip_prefix("ctrl-").unwrap_or(name).as_bytes(), name.len()) {
            ([key @ b' '..=b'~'], 1) => Ok(*key),
            ([key @ (b'a'..=b'z' | b'@' | b'[' | b'\\' | b']' | b'^' | b'_')], 6) => Ok(key & 0x1f),
            _ => Err(format!(
                "`{name}` is not a valid key: write a character, or ctrl- and one of a-z @ [ \\ ] ^ _"
            )),
        };
        let keys: Result<Vec<u8>, String> = match text {
            "" => Ok(Vec::new()),
            text => text.split(',').map(key).collect(),
        };
        Ok(Self { keys: keys?, held: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_complete_sequence_detaches() {
        let mut keys = DetachKeys::default();
        for (typed, passed, detaches) in [
            (&b"ab"[..], &b"ab"[..], false),
            (b"\x10", b"", false),
            (b"x", b"\x10x", false),
            (b"\x10\x10", b"\x10", false),
            (b"\x11", b"", true),
            (b"a\x10\x11b", b"a", true),
            (b"\x11", b"\x11", false),
        ] {
            assert_eq!(keys.pass(typed), (passed.to_vec(), detaches), "{typed:?}");
        }
        let mut none: DetachKeys = "".parse().unwrap();
        assert_eq!(none.pass(b"\x10\x11"), (b"\x10\x11".to_vec(), false));
    }

    #[test]
    fn detach_keys_use_the_names_of_podman() {
        assert_eq!("ctrl-p,ctrl-q".parse(), Ok(DetachKeys::default()));
        assert_eq!("ctrl-x,d".parse(), Ok(DetachKeys { keys: vec![0x18, b'd'], held: 0 }));
        assert_eq!("ctrl-[".parse(), Ok(DetachKeys { keys: vec![0x1b], held: 0 }));
        for text in ["ctrl-", "ctrl-é", "ab", "a,", "ctrl-P"] {
            assert!(text.parse::<DetachKeys>().is_err(), "{text}");
        }
    }
}
