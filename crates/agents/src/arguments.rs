//! Arguments for an agent in addition to those of every execution.

use super::profile::Agent;

/// The option with a text to append to Claude Code's system prompt.
const APPEND: &str = "--append-system-prompt";
/// The same from a file, which excludes the other.
const APPEND_FILE: &str = "--append-system-prompt-file";
/// The maximum length of an argument: the kernel refuses one of 128 KiB, and the briefing and a
/// blank line may precede it.
const LONGEST: usize = 128 * 1024 - 1 - 2050;
/// The maximum length of all arguments together, in bytes.
const LONGEST_ALL: usize = 1024 * 1024;

/// Options of Claude Code that conflict with how the sandbox runs and reads it, and what to use
/// instead.
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

/// An argument that cannot be passed to an agent, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidArgument(String);

impl Agent {
    /// Checks the arguments of a caller.
    ///
    /// # Errors
    ///
    /// When there is an option that the sandbox sets itself, an argument that no process can
    /// receive, or too long a list.
    pub fn check_arguments(&self, arguments: &[String]) -> Result<(), InvalidArgument> {
        let refused = |problem: String| Err(InvalidArgument(problem));
        for argument in arguments {
            let name = match argument.as_bytes() {
                // The value of a short option may follow it directly.
                [b'-', short, ..] if *short != b'-' => argument.get(..2).unwrap_or(argument),
                _ => argument.split('=').next().unwrap_or_default(),
            };
            let ours = OURS.iter().find(|(names, _)| self.is_claude() && names.contains(&name));
            if let Some((_, instead)) = ours {
                return refused(format!("`{name}` is set by the sandbox; {instead}"));
            }
            if self.sets(name) {
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
}

/// Whether `id` can be the id of a session: text written by a task must not be taken for an option.
#[must_use]
pub fn is_session_id(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Adds `briefing` to the text that the arguments append to Claude Code's system prompt. Claude
/// Code accepts one such text, so the briefing precedes the caller's; it is omitted if the caller's
/// is in a file.
#[must_use]
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
    fn briefing_and_text_of_the_caller_are_joined() {
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
    fn conflicting_or_oversized_argument_is_refused() {
        let claude = Agent::default();
        for argument in
            ["--output-format", "--output-format=text", "-p", "--resume=x", "-c", "--model=opus", "a\0b"]
        {
            assert!(claude.check_arguments(&owned(&["--tools", argument])).is_err(), "{argument}");
        }
        assert!(claude.check_arguments(&["x".repeat(LONGEST + 1)]).is_err());
        assert!(claude.check_arguments(&vec!["x".repeat(100_000); 11]).is_err());
        let good = [
            "--mcp-config",
            "/workspace/mcp.json",
            "--strict-mcp-config",
            "--allowedTools",
            "Bash(git *)",
            "--max-turns",
            "3",
        ];
        claude.check_arguments(&owned(&good)).unwrap();
        let codex: Agent = "codex".parse().unwrap();
        for (argument, good) in [("--json", false), ("resume", false), ("-m", false), ("--verbose", true)] {
            assert_eq!(codex.check_arguments(&owned(&[argument])).is_ok(), good, "{argument}");
        }
    }

    #[test]
    fn session_id_that_reads_as_an_option_is_refused() {
        for (id, good) in [
            ("0f8fad5b-d9cb", true),
            ("ses_df80", true),
            ("-x", false),
            ("--a=b", false),
            ("a b", false),
            ("", false),
        ] {
            assert_eq!(is_session_id(id), good, "{id}");
        }
    }
}
