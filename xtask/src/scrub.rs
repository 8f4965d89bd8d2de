//! Removes the data from a recording that depends on its machine and its time.

use std::collections::HashMap;

/// Replaces texts by fixed ones, and each UUID by the number of its first appearance, so that equal
/// UUIDs stay equal.
#[derive(Default)]
pub(crate) struct Scrubber {
    replacements: Vec<(String, &'static str)>,
    uuids: HashMap<String, usize>,
}

const UUID_LENGTH: usize = 36;

impl Scrubber {
    /// Replaces `text` from now on; earlier replacements apply first.
    pub(crate) fn replace(&mut self, text: impl Into<String>, with: &'static str) {
        self.replacements.push((text.into(), with));
    }

    /// The line in a form that may be published.
    pub(crate) fn scrub(&mut self, line: &str) -> String {
        let mut line = line.to_owned();
        for (text, with) in &self.replacements {
            line = line.replace(text.as_str(), with);
        }
        self.number_uuids(&line)
    }

    fn number_uuids(&mut self, line: &str) -> String {
        let mut numbered = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if let Some((candidate, after)) = rest.split_at_checked(UUID_LENGTH)
                && is_uuid(candidate)
            {
                let next = self.uuids.len() + 1;
                let number = *self.uuids.entry(candidate.to_owned()).or_insert(next);
                numbered += &numbered_uuid(number);
                rest = after;
            } else {
                numbered.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
        numbered
    }
}

fn numbered_uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Whether a text is a UUID that must be replaced; the nil UUID stays.
fn is_uuid(text: &str) -> bool {
    let in_shape = text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    in_shape && text.bytes().any(|byte| byte != b'0' && byte != b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_keep_only_their_identity() {
        let mut scrubber = Scrubber::default();
        let line = "a 3f0c2a44-9a15-4f5e-8a3e-0d1c2b3a4f50 é b18f2a44-9a15-4f5e-8a3e-0d1c2b3a4f50";
        assert_eq!(
            scrubber.scrub(line),
            "a 00000000-0000-4000-8000-000000000001 é 00000000-0000-4000-8000-000000000002"
        );
        assert_eq!(
            scrubber.scrub("3f0c2a44-9a15-4f5e-8a3e-0d1c2b3a4f50!"),
            "00000000-0000-4000-8000-000000000001!"
        );
    }

    #[test]
    fn texts_are_replaced_in_order() {
        let mut scrubber = Scrubber::default();
        scrubber.replace("/home/me/work", "/workspace");
        scrubber.replace("/home/me", "/root");
        assert_eq!(scrubber.scrub("/home/me/work/a /home/me/b"), "/workspace/a /root/b");
    }
}
