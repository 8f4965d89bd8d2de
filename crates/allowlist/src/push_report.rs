//! The answer to a refused push, in git's own protocol: its client shows the refs and the reasons.

/// Maximum size of a side-band packet in bytes, and the size of its length and band.
const PACKET: usize = 65_520;
const HEAD: usize = 5;

/// The refs of a refused push, and its client's capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// The client asked for the status of each ref.
    has_status: bool,
    /// The client accepts messages in addition to the status.
    has_side_band: bool,
    /// The refs, in their order.
    names: Vec<Box<[u8]>>,
    /// The position of the refused ref, and its display name.
    refused: usize,
    shown: String,
    why: &'static str,
}

impl PushReport {
    /// The display name of the refused ref: not every name is UTF-8.
    #[must_use]
    pub fn ref_name(&self) -> &str {
        &self.shown
    }

    /// The body of the answer, of the type `application/x-git-receive-pack-result`, which shows
    /// `message`. `None` for a client that requests no status: only an HTTP status can tell it that
    /// a push was refused.
    #[must_use]
    pub fn answer(&self, message: &str) -> Option<Vec<u8>> {
        if !self.has_status {
            return None;
        }
        let mut status = Vec::new();
        packet(&mut status, &[b"unpack ok\n"]);
        for (place, name) in self.names.iter().enumerate() {
            let why = if place == self.refused { self.why } else { "another ref of the push is refused" };
            packet(&mut status, &[b"ng ", name, b" ", why.as_bytes(), b"\n"]);
        }
        status.extend_from_slice(b"0000");
        if !self.has_side_band {
            return Some(status);
        }
        let mut answer = Vec::new();
        let message = message.get(..message.floor_char_boundary(PACKET - HEAD - 1)).unwrap_or_default();
        packet(&mut answer, &[b"\x02", message.as_bytes(), b"\n"]);
        for part in status.chunks(PACKET - HEAD) {
            packet(&mut answer, &[b"\x01", part]);
        }
        answer.extend_from_slice(b"0000");
        Some(answer)
    }

    /// Records a capability of the client.
    pub(crate) fn capability(&mut self, word: &[u8]) {
        match word {
            b"report-status" | b"report-status-v2" => self.has_status = true,
            b"side-band-64k" => self.has_side_band = true,
            _ => {}
        }
    }

    /// Records a ref, and returns its position.
    pub(crate) fn name(&mut self, name: &[u8]) -> usize {
        self.names.push(name.into());
        self.names.len() - 1
    }

    /// The report of a push whose ref at `place`, displayed as `shown`, is refused.
    pub(crate) fn refusing(self, place: usize, shown: String, why: &'static str) -> Self {
        Self { refused: place, shown, why, ..self }
    }
}

fn packet(bytes: &mut Vec<u8>, parts: &[&[u8]]) {
    let length = 4 + parts.iter().map(|part| part.len()).sum::<usize>();
    bytes.extend_from_slice(format!("{length:04x}").as_bytes());
    for part in parts {
        bytes.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(capabilities: &[&str]) -> PushReport {
        let mut report = PushReport::default();
        for word in capabilities {
            report.capability(word.as_bytes());
        }
        for name in ["refs/heads/a", "refs/heads/main"] {
            report.name(name.as_bytes());
        }
        report.refusing(1, "refs/heads/main".to_owned(), "not allowed by policy")
    }

    #[test]
    fn report_names_every_ref_and_which_is_refused() {
        let status = "000eunpack ok\n0037ng refs/heads/a another ref of the push is refused\n\
                      002dng refs/heads/main not allowed by policy\n0000";
        let plain = report(&["report-status"]);
        assert_eq!(plain.ref_name(), "refs/heads/main");
        assert_eq!(String::from_utf8(plain.answer("why").unwrap()).unwrap(), status);
        let banded = report(&["report-status-v2", "side-band-64k"]).answer("why").unwrap();
        let expected = format!("0009\x02why\n{:04x}\x01{status}0000", status.len() + 5);
        assert_eq!(String::from_utf8(banded).unwrap(), expected);
        assert_eq!(report(&["side-band-64k"]).answer("why"), None);
    }

    #[test]
    fn report_of_many_refs_and_a_long_message_has_valid_packets() {
        let mut report = report(&["report-status", "side-band-64k"]);
        for number in 0..8000 {
            report.name(format!("refs/heads/{number:0>80}").as_bytes());
        }
        let answer = report.answer(&"ü".repeat(100_000)).unwrap();
        let (mut rest, mut packets) = (answer.as_slice(), 0);
        while rest != b"0000" {
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..4]).unwrap(), 16).unwrap();
            assert!(length > HEAD && length <= PACKET, "{length}");
            (rest, packets) = (&rest[length..], packets + 1);
        }
        assert!(packets > 10, "{packets}");
    }
}
