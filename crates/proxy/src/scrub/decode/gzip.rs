//! `gzip` (RFC 1952): members, each with a header, compressed data, and a trailer with checksum and
//! length.

use flate2::Crc;

use super::deflate::{Inflate, MEMORY};
use super::{DecodeError, Decoder, Step};

const CODING: &str = "gzip";
const INVALID: DecodeError = DecodeError::Invalid { coding: CODING };
const MAGIC: [u8; 2] = [0x1f, 0x8b];
const DEFLATE: u8 = 8;
const HEADER_CHECKSUM: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// Decoder for `gzip`.
pub(super) struct Gzip {
    section: Section,
    inflate: Inflate,
    checksum: Crc,
    /// Whether a member was read to its end.
    any: bool,
}

/// The section that comes next.
#[derive(Clone, Copy)]
enum Section {
    /// `seen` bytes of the fixed header have arrived, with these flags.
    Fixed {
        seen: u8,
        flags: u8,
    },
    /// The optional parts of the header that `flags` still announces.
    Optional {
        flags: u8,
        part: Part,
    },
    Data,
    Trailer {
        bytes: [u8; 8],
        seen: usize,
    },
    /// Data that is not another member is dropped, as gzip does.
    Ended,
}

#[derive(Clone, Copy)]
enum Part {
    /// The next part is not chosen yet.
    Choose,
    ExtraLength(Option<u8>),
    Skip(u16),
    Text,
}

impl Gzip {
    /// Creates a decoder that has read nothing.
    pub(super) fn new() -> Self {
        Self {
            section: Section::Fixed { seen: 0, flags: 0 },
            inflate: Inflate::new(false),
            checksum: Crc::new(),
            any: false,
        }
    }

    /// Reads one byte of a header or a trailer.
    fn read(&mut self, byte: u8) -> Result<(), DecodeError> {
        self.section = match self.section {
            Section::Fixed { seen, flags } => self.fixed(seen, flags, byte)?,
            Section::Optional { flags, part } => optional(flags, part, Some(byte)),
            Section::Trailer { mut bytes, seen } => {
                if let Some(place) = bytes.get_mut(seen) {
                    *place = byte;
                }
                if seen + 1 == bytes.len() {
                    self.close(bytes)?
                } else {
                    Section::Trailer { bytes, seen: seen + 1 }
                }
            }
            Section::Data | Section::Ended => return Ok(()),
        };
        Ok(())
    }

    fn fixed(&self, seen: u8, flags: u8, byte: u8) -> Result<Section, DecodeError> {
        let [first, second] = MAGIC;
        let valid = match seen {
            0 => byte == first,
            1 => byte == second,
            2 => byte == DEFLATE,
            3 => byte & RESERVED == 0,
            _ => true,
        };
        if !valid && self.any && seen < 2 {
            return Ok(Section::Ended);
        }
        if !valid {
            return Err(INVALID);
        }
        let flags = if seen == 3 { byte } else { flags };
        Ok(if seen == 9 {
            optional(flags, Part::Choose, None)
        } else {
            Section::Fixed { seen: seen + 1, flags }
        })
    }

    /// Checks a complete member, and prepares for the next.
    fn close(&mut self, trailer: [u8; 8]) -> Result<Section, DecodeError> {
        let [a, b, c, d, length @ ..] = trailer;
        let matches = u32::from_le_bytes([a, b, c, d]) == self.checksum.sum()
            && u32::from_le_bytes(length) == self.checksum.amount();
        if !matches {
            return Err(INVALID);
        }
        self.inflate = Inflate::new(false);
        self.checksum = Crc::new();
        self.any = true;
        Ok(Section::Fixed { seen: 0, flags: 0 })
    }
}

/// The section after `byte` of the optional parts of a header; without a byte, the first of these
/// parts.
fn optional(flags: u8, part: Part, byte: Option<u8>) -> Section {
    let (flags, part) = match (part, byte) {
        (Part::ExtraLength(None), Some(low)) => (flags, Part::ExtraLength(Some(low))),
        (Part::ExtraLength(Some(low)), Some(high)) => match u16::from_le_bytes([low, high]) {
            0 => (flags, Part::Choose),
            length => (flags, Part::Skip(length)),
        },
        (Part::Skip(left @ 2..), Some(_)) => (flags, Part::Skip(left - 1)),
        (Part::Text, Some(byte)) if byte != 0 => (flags, Part::Text),
        _ => (flags, Part::Choose),
    };
    if !matches!(part, Part::Choose) {
        return Section::Optional { flags, part };
    }
    let next = [
        (EXTRA, Part::ExtraLength(None)),
        (NAME, Part::Text),
        (COMMENT, Part::Text),
        (HEADER_CHECKSUM, Part::Skip(2)),
    ]
    .into_iter()
    .find(|(flag, _)| flags & flag != 0);
    match next {
        Some((flag, part)) => Section::Optional { flags: flags & !flag, part },
        None => Section::Data,
    }
}

impl Decoder for Gzip {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        match self.section {
            Section::Data => {
                let (step, ended) = self.inflate.step(input, output, CODING)?;
                self.checksum.update(output.get(..step.written).unwrap_or_default());
                if ended {
                    self.section = Section::Trailer { bytes: [0; 8], seen: 0 };
                }
                Ok(step)
            }
            Section::Ended => Ok(Step { read: input.len(), written: 0 }),
            _ => {
                let mut read = 0;
                for byte in input {
                    if matches!(self.section, Section::Data | Section::Ended) {
                        break;
                    }
                    self.read(*byte)?;
                    read += 1;
                }
                Ok(Step { read, written: 0 })
            }
        }
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        match self.section {
            Section::Ended | Section::Fixed { seen: 0, .. } => Ok(()),
            // The byte after the last member does not begin another.
            Section::Fixed { seen: 1, .. } if self.any => Ok(()),
            _ => Err(DecodeError::CutOff { coding: CODING }),
        }
    }

    fn memory(&self) -> usize {
        MEMORY
    }
}
