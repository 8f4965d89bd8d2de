//! Reads any `sandbox.yaml`, for the fuzzer: see `fuzzing`.

use std::path::Path;

use super::file::ConfigFile;
use located_yaml::InvalidFile;

/// A key that no version knows: it is refused after any document.
const UNKNOWN: &str = "\nno-such-setting: 1\n";
/// An error may quote a part of the document, and lists valid alternatives.
const LONGEST_ERROR: usize = 4096;

/// `data` is the document.
///
/// # Panics
///
/// If reading is not deterministic, if an unknown key is accepted, or if an error contains control
/// characters or a place outside of the document.
pub fn settings_document(data: &[u8]) {
    let Ok(text) = located_yaml::text(data) else {
        return;
    };
    let parse = |text: &str| ConfigFile::parse(text, "sandbox.yaml", Path::new("/project/.sandbox"));
    let read = parse(text);
    assert!(read == parse(text), "one document is read in two ways");
    if let Err(error) = &read {
        check(error, text);
    }
    let more = format!("{text}{UNKNOWN}");
    match parse(&more) {
        Ok(_) => panic!("a setting that does not exist is accepted"),
        Err(error) => check(&error, &more),
    }
}

fn check(error: &InvalidFile, text: &str) {
    let message = error.to_string();
    assert!(
        !error.message().is_empty() && message.len() <= LONGEST_ERROR + 8 * text.len(),
        "an error of {} bytes",
        message.len()
    );
    assert!(!message.chars().any(char::is_control), "an error contains control characters: {message:?}");
    let position = error.location().position();
    // The line ends of YAML.
    let ends = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
    let lines = text.split(ends).count();
    assert!(
        (1..=lines + 1).contains(&position.line) && position.column >= 1,
        "an error is at {position:?} of {lines} lines"
    );
}
