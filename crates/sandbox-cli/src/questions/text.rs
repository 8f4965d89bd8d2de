//! The text of a question, and its answers.

use std::time::SystemTime;

use sandbox::network::{Question, Verdict};

use crate::printer::sanitize_name;

/// The number of characters of a URL's path and query that are shown at its beginning, and at its
/// end.
const BEGINNING: usize = 160;
const END: usize = 60;

/// The question. It contains the task's request, shortened, and the rule, in full.
pub(super) fn question(question: &Question) -> String {
    let Question { method, url, rule, .. } = question;
    format!(
        "No rule allows this request of the task. `always` adds this to `{}`:\n  {}\nAllow  {} {}  ",
        rule.kind().list(),
        sanitize_name(&rule.to_yaml()),
        sanitize_name(method),
        sanitize_name(&shortened(url)),
    )
}

/// The possible answers, and the remaining time.
pub(super) fn answers(question: &Question, now: SystemTime) -> String {
    let rest = question.until.duration_since(now).unwrap_or_default().as_secs();
    format!("[o]nce, for this [r]un, [a]lways, [n]o? (no after {rest} s) ")
}

/// A URL without the middle of a long path; its host is never shortened.
fn shortened(url: &str) -> String {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url.get(host..).and_then(|rest| rest.find(['/', '?'])).map_or(url.len(), |at| host + at);
    let (origin, path) = url.split_at_checked(path).unwrap_or((url, ""));
    let length = path.chars().count();
    if length <= BEGINNING + END {
        return url.to_owned();
    }
    let beginning: String = path.chars().take(BEGINNING).collect();
    let end: String = path.chars().skip(length - END).collect();
    format!("{origin}{beginning} ... {} characters ... {end}", length - BEGINNING - END)
}

/// The typed verdict; `None` if it is not an answer.
pub(super) fn verdict(line: &str) -> Option<Verdict> {
    match line.trim() {
        "o" | "once" => Some(Verdict::Once),
        "r" | "run" => Some(Verdict::Run),
        "a" | "always" => Some(Verdict::Always),
        "n" | "no" => Some(Verdict::No),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_words_are_answers() {
        for (line, expected) in [
            ("o\n", Some(Verdict::Once)),
            ("r\n", Some(Verdict::Run)),
            (" always \n", Some(Verdict::Always)),
            ("n\n", Some(Verdict::No)),
            ("\n", None),
            ("", None),
            ("y\n", None),
            ("yes\n", None),
            ("oa\n", None),
            ("for this run\n", None),
            ("\x1b[Ao\n", None),
        ] {
            assert_eq!(verdict(line), expected, "{line:?}");
        }
    }

    #[test]
    fn long_url_is_shortened_only_in_its_path() {
        let host = format!("{}.example", "a".repeat(240));
        let short = format!("https://{host}/x?y");
        assert_eq!(shortened(&short), short);
        for separator in ["/", "?"] {
            let long = shortened(&format!("https://{host}{separator}{}end", "b/".repeat(4000)));
            assert!(long.starts_with(&format!("https://{host}{separator}b/b/")), "{long}");
            assert!(long.ends_with("b/b/end") && long.len() < 600, "{long}");
        }
        assert_eq!(shortened(""), "");
    }
}
