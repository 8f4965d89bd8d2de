//! The output for a newcomer: headings, the commands, and their output.

use std::path::Path;
use std::process::Command;

use crate::workspace;

/// Prints the heading of a part of the demo.
pub(crate) fn heading(text: &str) {
    eprintln!("\n── {text}");
}

/// Prints a command as a newcomer would type it, with relative paths in the checkout.
pub(crate) fn command_line(folder: &Path, command: &Command) {
    let words: Vec<_> =
        command.get_args().map(|word| quoted(&relative(folder, &word.to_string_lossy()))).collect();
    eprintln!("$ sandbox {}", words.join(" "));
}

/// Prints the output of a command, indented.
pub(crate) fn block(text: &str) {
    for line in text.trim_end().lines() {
        eprintln!("  {line}");
    }
}

fn relative(folder: &Path, word: &str) -> String {
    let checkout = workspace::root();
    let path = Path::new(word);
    if let Ok(inside) = path.strip_prefix(folder) {
        return inside.display().to_string();
    }
    match path.strip_prefix(&checkout) {
        Ok(inside) => format!("…/{}", inside.display()),
        Err(_) => word.to_owned(),
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,…@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        for (word, expected) in [
            ("--network-log", "--network-log"),
            ("https://allowed.example/", "https://allowed.example/"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn long_paths_are_shortened() {
        let folder = workspace::root().join("target/demo");
        let inside = folder.join("net/log");
        assert_eq!(relative(&folder, &inside.to_string_lossy()), "net/log");
        let other = workspace::root().join("target/x");
        assert_eq!(relative(&folder, &other.to_string_lossy()), "…/target/x");
        assert_eq!(relative(&folder, "/usr/bin/claude"), "/usr/bin/claude");
    }
}
