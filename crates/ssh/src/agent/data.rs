//! The encoding of RFC 4251: numbers and strings, read to the last byte or not at all.

/// The bytes left to read.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*bytes))
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.bytes(usize::try_from(length).ok()?)
    }

    /// `None` if bytes are left.
    pub(super) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Appends a string.
pub(super) fn put_string(message: &mut Vec<u8>, bytes: &[u8]) {
    put_number(message, bytes.len());
    message.extend_from_slice(bytes);
}

/// Appends a number. Everything that is sent is far shorter than 4 GiB.
pub(super) fn put_number(message: &mut Vec<u8>, number: usize) {
    message.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
}
