//! Arguments for an agent beside those that every execution has.

use crate::agent::Agent;
use crate::spec::InvalidSpec;

/// What is appended to Claude Code's system prompt.
const APPEND: &str = "--append-system-prompt";
/// The same from a file, which excludes it.
const APPEND_FILE: &str = "--append-system-prompt-file";
/// The longest argument: the kernel takes none of 128 KiB, and the briefing and a blank line go before one.
const LONGEST: usize = 128 * 1024 - 1 - 2050;
/// Bytes that all of them may come to.
const LONGEST_ALL: usize = 1024 * 1024;

/// Options of Claude Code that would make the execution another thing than what is read, and what to use instead.
const OURS: [(&[&str], &str); 5] = [
    (
        &["--output-format", "--input-format", "--verbose"],
        "leave it out: events are always read as stream-json",
    ),
    (&["-p", "--print"], "leave it out: it is always given"),
    (
        &["-r", "--resume", "-c", "--continue", "--session-id", "--fork-session"],
        "use `Prompt::resume`, or `--resume` before `--`",
    ),
    (&["--model"], "use `Prompt::model`, or `--model` before `--`"),
    (&["-h", "--help", "-v", "--version"], "run the program itself to see that"),
];

/// Refuses what cannot be passed on.
pub(super) fn check(arguments: &[String], agent: &Agent) -> Result<(), InvalidSpec> {
    let refused = |problem: String| Err(InvalidSpec::new("arguments", problem));
    for argument in arguments {
        let name = match argument.as_bytes() {
            // The value of a short option may follow it at once.
            [b'-', short, ..] if *short != b'-' => argument.get(..2).unwrap_or(argument),
            _ => argument.split('=').next().unwrap_or_default(),
        };
        let ours = OURS.iter().find(|(names, _)| agent.is_claude() && names.contains(&name));
        if let Some((_, instead)) = ours {
            return refused(format!("`{name}` is set by the sandbox; {instead}"));
        }
        if agent.sets(name) {
            return refused(format!(
                "`{name}` is set by the sandbox, or would change what it reads; leave it out"
            ));
        }
        if argument.contains('\0') {
            return refused("must not contain NUL".to_owned());
        }
        if argument.len() > LONGEST {
            return refused(format!("an argument is longer than {LONGEST} bytes; put it into a file"));
        }
    }
    if arguments.iter().map(String::len).sum::<usize>() > LONGEST_ALL {
        return refused(format!("are longer than {LONGEST_ALL} bytes together; use files"));
    }
    Ok(())
}

/// Refuses a session id that could be taken for an option: a task has written it.
pub(super) fn check_session(id: Option<&str>) -> Result<(), InvalidSpec> {
    let is_word = |id: &str| {
        id.starts_with(|first: char| first.is_ascii_alphanumeric())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    match id {
        Some(id) if !is_word(id) => Err(InvalidSpec::new(
            "resume",
            "is no session id: it has other characters than letters, digits, `_` and `-`",
        )),
        _ => Ok(()),
    }
}

/// The arguments with `briefing` in what is appended to the system prompt. Claude Code takes one such text, so it goes before the caller's; it is
/// left out where the caller's is in a file.
pub(super) fn with_briefing(arguments: &[String], briefing: &str) -> Vec<String> {
    let is = |argument: &String, name: &str| {
        argument.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    if arguments.iter().any(|argument| is(argument, APPEND_FILE)) {
        return arguments.to_vec();
    }
    let mut text = briefing.to_owned();
    let mut others = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let theirs = match argument.strip_prefix(APPEND) {
            Some("") => rest.next().map(String::as_str),
            Some(value) => value.strip_prefix('='),
            None => None,
        };
        match theirs {
            Some(theirs) => text = format!("{briefing}\n\n{theirs}"),
            None => others.push(argument.clone()),
        }
    }
    [APPEND.to_owned(), text].into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(|argument| (*argument).to_owned()).collect()
    }

    #[test]
    fn the_briefing_and_the_callers_text_are_one() {
        for (arguments, expected) in [
            (&[][..], &["--append-system-prompt", "b"][..]),
            (&["--tools", "Bash"], &["--append-system-prompt", "b", "--tools", "Bash"]),
            (
                &["--append-system-prompt", "mine", "--tools", "Bash"],
                &["--append-system-prompt", "b\n\nmine", "--tools", "Bash"],
            ),
            (&["--append-system-prompt=mine"], &["--append-system-prompt", "b\n\nmine"]),
            (&["--append-system-prompt-file", "x"], &["--append-system-prompt-file", "x"]),
            (&["--append-system-prompt"], &["--append-system-prompt", "b", "--append-system-prompt"]),
        ] {
            assert_eq!(with_briefing(&owned(arguments), "b"), owned(expected), "{arguments:?}");
        }
    }

    #[test]
    fn what_would_change_what_is_read_is_refused() {
        let claude = Agent::default();
        for argument in
            ["--output-format", "--output-format=text", "-p", "--resume=x", "-c", "--model=opus", "a\0b"]
        {
            assert!(check(&owned(&["--tools", argument]), &claude).is_err(), "{argument}");
        }
        assert!(check(&["x".repeat(LONGEST + 1)], &claude).is_err());
        assert!(check(&vec!["x".repeat(100_000); 11], &claude).is_err());
        let good = [
            "--mcp-config",
            "/workspace/mcp.json",
            "--strict-mcp-config",
            "--allowedTools",
            "Bash(git *)",
            "--max-turns",
            "3",
        ];
        check(&owned(&good), &claude).unwrap();
        let codex: Agent = "codex".parse().unwrap();
        for (argument, good) in [("--json", false), ("resume", false), ("-m", false), ("--verbose", true)] {
            assert_eq!(check(&owned(&[argument]), &codex).is_ok(), good, "{argument}");
        }
    }

    #[test]
    fn a_session_id_is_no_option() {
        for (id, good) in [
            ("0f8fad5b-d9cb", true),
            ("ses_df80", true),
            ("-x", false),
            ("--a=b", false),
            ("a b", false),
            ("", false),
        ] {
            assert_eq!(check_session(Some(id)).is_ok(), good, "{id}");
        }
    }
}
