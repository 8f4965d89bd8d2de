//! One message, one line of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message that could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("not a message of this protocol")]
pub struct LineError(#[from] serde_json::Error);

/// The line of `message`, newline included.
///
/// # Errors
///
/// When a value has no JSON form, which no type of this crate lacks.
pub fn to_line<T: Serialize>(message: &T) -> Result<String, LineError> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    Ok(line)
}

/// The message of `line`; a newline at its end is accepted.
///
/// # Errors
///
/// When the line is no JSON, or no such message. The error never quotes the line: it may hold a key.
pub fn from_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, LineError> {
    Ok(serde_json::from_slice(line)?)
}
