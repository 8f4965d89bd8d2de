//! Text chosen by a task, an upstream or a model is inert on the page.

use std::path::Path;

use allowlist::Allowlist;
use sandbox::network::LogEntry;
use sandbox::session::SessionReply;

use super::*;

/// Markup, a script, an end of an attribute, terminal sequences, reordered text, and a URL that a
/// browser would load.
const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'onload=x &lt; \u{1b}[31m\u{202e}\u{200b}http://evil.test/";

fn hostile() -> Report {
    let text = |_: &str| HOSTILE.to_owned();
    let mut report = Report { run: text("run"), project: text("project"), ..Report::default() };
    report.record = Some(RunRecord::begin(Path::new("/srv"), &[text("command")]).with_session(
        HOSTILE,
        "/s".into(),
        HOSTILE,
    ));
    if let Some(session) = report.record.as_mut().and_then(|record| record.session.as_mut()) {
        session.id = Some(text("id"));
        session.outcome = Some(text("outcome"));
    }
    let line = |decision: &str, reason: &str| {
        let hostile = serde_json::to_string(HOSTILE).unwrap();
        format!(
            r#"{{"v":1,"time":{hostile},"event":"request","decision":"{decision}","method":{hostile},"scheme":"https","host":{hostile},"target":{hostile},"status":403,"rule":null,"reason":{reason},"error":{hostile},"bytes_up":5,"bytes_down":2048,"first_byte_ms":null,"duration_ms":7}}"#
        )
    };
    for (decision, reason) in [("blocked", r#""host""#), ("allowed", "null"), ("error", "null")] {
        report.take(LogEntry::parse(&line(decision, reason)).unwrap(), &Allowlist::default());
    }
    let event = |value: serde_json::Value| claude_output::parse_event(&value.to_string()).unwrap();
    let message = |content: serde_json::Value| serde_json::json!({"role": "assistant", "content": content});
    let events = vec![
        event(
            serde_json::json!({"type": "assistant", "session_id": HOSTILE, "message": message(serde_json::json!([
                {"type": "text", "text": HOSTILE},
                {"type": "tool_use", "id": "1", "name": HOSTILE, "input": {HOSTILE: HOSTILE}},
            ]))}),
        ),
        event(serde_json::json!({"type": "user", "message": message(serde_json::json!([
            {"type": "tool_result", "tool_use_id": "1", "content": HOSTILE, "is_error": true},
        ]))})),
    ];
    let reply = serde_json::json!({
        "session_id": HOSTILE, "timestamp": HOSTILE, "duration_ms": 1, "total_cost_usd": 0.0, "num_turns": 1, "is_error": false,
        "usage": {}, "request_text": HOSTILE, "response_text": HOSTILE, "events": [],
    });
    let mut reply: SessionReply = serde_json::from_value(reply).unwrap();
    reply.events = events;
    report.replies = vec![reply];
    report.changes = vec![format!("--- a/{HOSTILE}\n+{HOSTILE}\n-{HOSTILE}")];
    report
}

#[test]
fn hostile_text_is_inert() {
    let report = hostile();
    let page = page::page(&report);
    assert!(page.matches("alert(1)").count() > 30, "the control: it is everywhere");
    for start in [
        "<script", "<img", "<a ", "<link", "<iframe", "<svg", "<object", "<form", "\u{1b}", "\u{202e}",
        "\u{200b}",
    ] {
        assert!(!page.contains(start), "{start:?}");
    }
    // No attributes but ours: no hostile text is between `<` and `>`.
    for tag in page.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        assert!(!tag.contains("evil") && !tag.contains("alert"), "<{tag}>");
    }
    assert_eq!(
        page.matches("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';").count(),
        1
    );
}

#[test]
fn requests_are_counted_by_host_and_refusal() {
    let mut report = Report::default();
    let policy = Allowlist::from_yaml("domains: [a.example]", "t").unwrap();
    let line = |decision: &str, reason: &str, host: &str, repeated: u64| {
        format!(
            r#"{{"v":1,"time":"2026-02-03T12:34:59.000Z","event":"request","decision":"{decision}","method":"GET","scheme":"https","host":"{host}","target":"/x","status":200,"rule":null,"reason":{reason},"error":null,"bytes_up":1,"bytes_down":2,"first_byte_ms":null,"duration_ms":0,"repeated":{repeated}}}"#
        )
    };
    for line in [
        line("allowed", "null", "a.example", 0),
        line("blocked", r#""host""#, "b.example", 0),
        line("blocked", r#""host""#, "b.example", 40),
        // Refused for a reason that no rule can change.
        line("blocked", r#""framing""#, "a.example", 0),
    ] {
        report.take(LogEntry::parse(&line).unwrap(), &policy);
    }
    assert_eq!((report.hosts["a.example"].allowed, report.hosts["b.example"].blocked), (1, 41));
    let refusals: Vec<_> = report
        .refusals
        .iter()
        .map(|(what, refusal)| (what[2].as_str(), refusal.count, refusal.fix.is_some()))
        .collect();
    assert_eq!(refusals, [("framing", 1, false), ("host", 41, true)]);
    assert_eq!(report.requests.len(), 4);
    let page = page::page(&report);
    assert!(page.contains("1 allowed, 42 blocked, 0 failed"), "{page}");
}

#[test]
fn changes_are_those_of_the_last_run_on_the_copy() {
    let logs = tempfile::tempdir().unwrap();
    let run = |id: &str, copy| {
        let folder = logs.path().join(id);
        std::fs::create_dir(&folder).unwrap();
        RunRecord::begin(Path::new("/srv"), &[]).with_copy(copy).write(&folder).unwrap();
        folder
    };
    let reason = |folder: &Path| not_in_copy(folder, RunRecord::read(folder).as_ref());
    let [first, direct] = [("1-a", true), ("2-b", false)].map(|(id, copy)| run(id, copy));
    std::fs::create_dir(logs.path().join("3-build")).unwrap();
    assert_eq!(reason(&first), None, "the others worked on no copy");
    assert!(reason(&direct).unwrap().contains("names no copy"));
    assert!(reason(&logs.path().join("3-build")).unwrap().contains("names no copy"));
    let second = run("4-d", true);
    let third = run("5-e", true);
    assert!(reason(&first).unwrap().contains("run, 5-e,") && reason(&second).unwrap().contains("5-e"));
    assert_eq!(reason(&third), None);
    let report = Report { no_changes: reason(&first), ..Report::default() };
    assert!(page::page(&report).contains("A later run, 5-e, worked on the same copy"));
}
