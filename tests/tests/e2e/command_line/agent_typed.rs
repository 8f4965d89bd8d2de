//! `agent` on a pseudo-terminal, with the real Claude Code: interactive without a prompt, streamed
//! text with one.

use e2e_tests::setting::Setting;

use super::agent::agent;
use super::project::{Project, assert_nothing_left};
use super::stand_in::{RESULT, StandIn};
use super::terminal::{Terminal, wait_until_nothing_left};

const KEY: &str = "sk-ant-api03-the-real-key-of-the-test";

fn project(prefix: &str) -> Project {
    let project = Project::with_prefix(prefix);
    project.append(
        ".sandbox/sandbox.yaml",
        &format!(
            "env: {{CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: \"1\", CLAUDE_CODE_MAX_RETRIES: \"1\"}}\nmasked_secrets: {{ANTHROPIC_API_KEY: {{value: {KEY}, preset: anthropic}}}}\n"
        ),
    );
    project
}

fn typed(project: &Project, arguments: &[&str]) -> Terminal {
    let claude = Setting::of_this_run().claude.display().to_string();
    let common = ["agent", "--claude-bin", &claude, "--timeout", "300"];
    Terminal::start(&project.sandbox(&[&common, arguments].concat()))
}

/// Submits a message in the agent's screen, which treats a line end that arrives with other keys as
/// part of the text.
fn submit(terminal: &mut Terminal, text: &str) {
    terminal.types(text);
    terminal.shows(text);
    terminal.types("\r");
}

#[tokio::test(flavor = "multi_thread")]
async fn interactive_agent_answers_and_its_session_is_resumed() {
    let prefix = "e2e-cli-typed";
    let project = project(prefix);
    let mut terminal = typed(&project, &[]);
    // It asks nothing first.
    let start = terminal.shows("\u{276f}");
    for question in ["trust", "API key", "theme", "Yes"] {
        assert!(!start.contains(question), "{start:?}");
    }
    submit(&mut terminal, "heliotrope");
    terminal.shows("said:");
    submit(&mut terminal, "/exit");
    assert_eq!(terminal.ends(), Some(0), "{:?}", terminal.rest());
    let shown = terminal.shows("; continue with --resume");
    assert!(shown.contains("session ") && !shown.contains(KEY), "{shown:?}");
    assert_nothing_left(prefix).await;

    let headless = agent(&project, &["--resume", "which-word"]);
    assert!(headless.code == Some(0) && headless.stdout.contains("heliotrope"), "{headless:?}");
    let mut terminal = typed(&project, &["--resume"]);
    terminal.shows("which-word");
    submit(&mut terminal, "mauve");
    terminal.shows("mauve");
    terminal.types("\x10\x11");
    assert_eq!(terminal.ends(), Some(0));
    terminal.shows("continues");
    assert_eq!(project.output(&["stop"]).code, Some(0));
    wait_until_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interactive_session_without_a_message_is_not_resumable() {
    let prefix = "e2e-cli-silent";
    let project = project(prefix);
    let mut terminal = typed(&project, &[]);
    terminal.shows("\u{276f}");
    submit(&mut terminal, "/exit");
    assert_eq!(terminal.ends(), Some(0), "{:?}", terminal.rest());
    agent(&project, &["--resume", "go on"]).fails(125, "no session to resume");
    let mut terminal = typed(&project, &["--max-turns", "3"]);
    assert_eq!(terminal.ends(), Some(2));
    terminal.shows("--max-turns needs a prompt");
    agent(&project, &[]).fails(2, "pass it as the last argument or on stdin");
    agent(&project, &["--output", "json", "--resume"]).fails(2, "the prompt is empty");
    wait_until_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_on_a_terminal_is_streamed_and_appears_once() {
    let project = project("e2e-cli");
    // The answer takes a minute.
    let mut terminal = typed(&project, &["scenario:slow"]);
    terminal.shows("word20");
    assert!(!terminal.rest().contains("word600"), "{:?}", terminal.rest());
    terminal.types("\x03");
    assert_eq!(terminal.ends(), Some(130), "{:?}", terminal.rest());
    let mut terminal = typed(&project, &["heliotrope"]);
    terminal.shows("said:");
    assert_eq!(terminal.ends(), Some(0), "{:?}", terminal.rest());
    let rest = terminal.rest();
    assert!(rest.contains("heliotrope") && rest.contains("session ") && !rest.contains("said:"), "{rest:?}");
    // The control: a pipe gets the answer only.
    let piped = agent(&project, &["heliotrope"]);
    assert!(piped.stdout.starts_with("This is turn 1") && piped.stdout.lines().count() == 1, "{piped:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_text_with_terminal_sequences_is_escaped() {
    let project = Project::new();
    let piece = |text: &str| {
        format!(
            r#"echo '{{"type":"stream_event","session_id":"a","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}}}'; sleep 0.3"#
        )
    };
    let lines = [
        piece(r"begun\u001b"),
        piece(r"[31mred\u009b"),
        piece(r"2J\u001b]0;title\u0007end"),
        format!("echo '{RESULT}'"),
    ];
    let stand_in = StandIn::new(&lines.join("\n"));
    let mut terminal = Terminal::start(&project.sandbox(&stand_in.arguments(&[])));
    let before = terminal.shows("end");
    assert!(
        before.contains(r"begun\u{1b}")
            && before.contains(r"[31mred\u{9b}")
            && before.contains(r"2J\u{1b}]0;title\u{7}"),
        "{before:?}"
    );
    assert!(!before.contains("\x1b[31m") && !before.contains("\x1b]"), "{before:?}");
    assert_eq!(terminal.ends(), Some(0));
}
