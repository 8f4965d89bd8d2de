//! One message, one line of JSON.

use std::fmt;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use zeroize::Zeroizing;

/// A message that could not be serialized or parsed.
///
/// It has the column and the kind of error, never the content: the line may contain a key, and a
/// JSON error may quote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("failed to read a message of this protocol at line {line}, column {column}: {fault}")]
pub struct LineError {
    fault: LineFault,
    line: usize,
    column: usize,
}

/// The kind of error in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFault {
    /// It is not JSON.
    Syntax,
    /// It is JSON, but not of the message's shape.
    Shape,
    /// It is truncated.
    CutShort,
    /// The message could not be serialized.
    Write,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "this is not JSON",
            Self::Shape => "this is not a known message",
            Self::CutShort => "the line is cut short",
            Self::Write => "the message cannot be written",
        })
    }
}

impl LineError {
    /// The kind of error.
    #[must_use]
    pub fn fault(&self) -> LineFault {
        self.fault
    }

    /// The position of the error, in bytes from 1; 0 if unknown.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

// The original is dropped: it may quote the line.
impl From<serde_json::Error> for LineError {
    fn from(error: serde_json::Error) -> Self {
        let fault = match error.classify() {
            Category::Syntax => LineFault::Syntax,
            Category::Data => LineFault::Shape,
            Category::Eof => LineFault::CutShort,
            Category::Io => LineFault::Write,
        };
        Self { fault, line: error.line(), column: error.column() }
    }
}

/// The line of `message`, including the newline.
///
/// # Errors
///
/// If a value has no JSON form, which does not apply to types of this crate.
pub fn to_line<T: Serialize>(message: &T) -> Result<String, LineError> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    Ok(line)
}

/// Like [`to_line`], for a message that contains secrets: the line is zeroed on drop, and
/// serializing it leaves no copies in memory.
///
/// # Errors
///
/// Like [`to_line`].
pub fn to_secret_line<T: Serialize>(message: &T) -> Result<Zeroizing<Vec<u8>>, LineError> {
    let mut length = Length(0);
    serde_json::to_writer(&mut length, message)?;
    // A growing vector moves, and leaves its old content in memory.
    let mut line = Zeroizing::new(Vec::with_capacity(length.0.saturating_add(1)));
    serde_json::to_writer(&mut *line, message)?;
    line.push(b'\n');
    Ok(line)
}

/// Counts the written bytes.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The message of `line`; a newline at its end is accepted.
///
/// # Errors
///
/// If the line is not JSON, or not such a message. The error never quotes the line: it may contain
/// a key.
pub fn from_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, LineError> {
    Ok(serde_json::from_slice(line)?)
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::{Command, StartConfig};

    #[test]
    fn error_does_not_quote_the_line() {
        for (line, fault) in [
            (&b"\"SECRET\""[..], LineFault::Shape),
            (b"{\"SECRET\": 1}", LineFault::Shape),
            (b"{\"protocol\": \"SECRET\"}", LineFault::Shape),
            (
                b"{\"authority\": {\"certificate_pem\": \"\", \"private_key_pem\": {\"SECRET\": 1}}}",
                LineFault::Shape,
            ),
            (b"{\"protocol\": 1, SECRET", LineFault::Syntax),
            (b"{\"protocol\": ", LineFault::CutShort),
        ] {
            let error = from_line::<StartConfig>(line).unwrap_err();
            assert_eq!(error.fault(), fault, "{error}");
            assert!(!format!("{error} {error:?}").contains("SECRET"), "{error:?}");
            assert!(error.source().is_none() && error.column() > 0, "{error:?}");
        }
        let error = from_line::<Command>(b"{\"command\": \"SECRET\"}").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("SECRET"));
    }

    #[test]
    fn secret_line_is_equal_and_does_not_reallocate() {
        let message = Command::SetPolicy {
            policy: allowlist::Allowlist::from_yaml("domains: [\"b\\xFCcher.example\"]", "t").unwrap(),
        };
        let line = to_secret_line(&message).unwrap();
        assert_eq!(line.as_slice(), to_line(&message).unwrap().as_bytes());
        assert_eq!(line.capacity(), line.len());
    }
}
