//! The reason why an execution failed, as text.

use std::borrow::Cow;

use claude_output::{ApiError, extract_error_summary, extract_result_summary};

use super::{Ended, Evidence, Outcome};

impl Evidence<'_> {
    /// The reason why an execution with this outcome failed: the agent's own text if there is any,
    /// and a description otherwise. `None` for a success.
    #[must_use]
    pub fn error_summary(&self, outcome: Outcome) -> Option<String> {
        if outcome == Outcome::Success {
            return None;
        }
        let stopped = |why: &str| format!("{why}{}", waiting(self));
        Some(match self.ended {
            Ended::Timeout => stopped("it was stopped at its time limit"),
            Ended::Stopped => stopped("it was stopped"),
            Ended::Stalled(silent) => {
                stopped(&format!("it was stopped: it had reported nothing for {} s", silent.as_secs_f64()))
            }
            Ended::Itself | Ended::OutputLimit | Ended::Answered => ended_by_itself(self),
        })
    }
}

fn ended_by_itself(evidence: &Evidence<'_>) -> String {
    if let Some(words) = extract_result_summary(evidence.events).and_then(|summary| summary.error?.text) {
        return words;
    }
    if let Some(words) = evidence.api_error().and_then(|error| error.text) {
        return words;
    }
    let printed = extract_error_summary(&[], &evidence.text_lines.join("\n"));
    let complained = extract_error_summary(&[], evidence.stderr);
    let has_result = evidence.events.iter().any(|event| event.as_result().is_some());
    let cause = match (evidence.signal(), has_result) {
        (Some(_), _) if evidence.oom_killed => "it was killed for want of memory".to_owned(),
        (Some(signal), true) => format!("it was killed by {} after its result", named(signal)),
        (Some(signal), false) => format!("it was killed by {} before it had a result", named(signal)),
        (None, true) => format!("it ended with exit code {}", evidence.exit_code),
        (None, false) => format!("it ended with exit code {} and without a result", evidence.exit_code),
    };
    match (printed, complained) {
        (Some(words), _) => format!("{cause}: {words}"),
        (None, Some(words)) if evidence.signal().is_some() => format!("{cause}: {words}"),
        (None, Some(words)) => words,
        (None, None) => cause + &waiting(evidence),
    }
}

/// The last API error, if Claude Code has had no answer since.
fn waiting(evidence: &Evidence<'_>) -> String {
    match evidence.api_error() {
        Some(error) => format!(" while it tried the API again: {}", described(&error)),
        None => String::new(),
    }
}

/// Such as `429 rate_limit, 6 times in a row`.
fn described(error: &ApiError) -> String {
    let status = error.status.map(|status| status.to_string());
    let words: Vec<&str> = [status.as_deref(), error.class.as_deref()].into_iter().flatten().collect();
    let words = if words.is_empty() { "no answer".to_owned() } else { words.join(" ") };
    match (&error.text, error.in_a_row) {
        (Some(text), _) => text.clone(),
        (None, 1) => words,
        (None, times) => format!("{words}, {times} times in a row"),
    }
}

fn named(signal: i64) -> Cow<'static, str> {
    let names = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
        (31, "SIGSYS"),
    ];
    match names.iter().find(|(number, _)| *number == signal) {
        Some((_, name)) => Cow::Borrowed(name),
        None => Cow::Owned(format!("signal {signal}")),
    }
}
