//! Lines as counted by YAML.

use crate::position::Position;

/// The characters that end a line; `\r\n` is one break.
const BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// The lines with their breaks.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(BREAKS)
        .scan(false, |after_return, line| {
            // The `\n` of a `\r\n` belongs to the previous line.
            let continues = *after_return && line == "\n";
            *after_return = line.ends_with('\r');
            Some(if continues { "" } else { line })
        })
        .filter(|line| !line.is_empty())
}

/// The position of a byte.
pub(crate) fn position_of(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let line = lines(before).filter(|line| line.ends_with(BREAKS)).count() + 1;
    let column = before.rsplit(BREAKS).next().unwrap_or_default().chars().count() + 1;
    Position { line, column }
}

/// The start of the second document: its `---`, which is unambiguous at the beginning of a line.
///
/// The first `---` belongs to the first document if only comments and directives precede it.
#[cfg(feature = "yaml")]
pub(crate) fn second_document(text: &str) -> Position {
    let mut nothing_yet = true;
    for (index, line) in lines(text).enumerate() {
        let marker =
            line.strip_prefix("---").is_some_and(|rest| rest.chars().next().is_none_or(char::is_whitespace));
        if marker && !nothing_yet {
            return Position { line: index + 1, column: 1 };
        }
        let content = line.trim_start();
        nothing_yet &= !marker && (content.is_empty() || content.starts_with('#') || line.starts_with('%'));
    }
    Position::START
}
