//! Text chosen by a task, an upstream or a model is inert on the page.

use std::path::Path;

use allowlist::Allowlist;
use sandbox::network::{LogEntry, Tokens};
use sandbox::network_event::{RequestOutcome, RequestRecord, Scheme};
use sandbox::session::SessionReply;

use super::*;
use crate::change_report::ChangeReport;

mod many;

/// Markup, a script, an end of an attribute, terminal sequences, reordered text, and a URL that a
/// browser would load.
pub(super) const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'onload=x &lt; \u{1b}[31m\u{202e}\u{200b}http://evil.test/";

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
            r#"{{"v":1,"time":{hostile},"event":"request","decision":"{decision}","method":{hostile},"scheme":"https","host":{hostile},"target":{hostile},"status":403,"rule":null,"reason":{reason},"error":{hostile},"masked":1,"credentials":[{hostile}],"bytes_up":5,"bytes_down":2048,"first_byte_ms":null,"duration_ms":7}}"#
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
    let text = format!("--- a/{HOSTILE}\n+{HOSTILE}\n-{HOSTILE}");
    report.changes = vec![ShownChange { facts: ChangeReport::default(), text }];
    report
}

#[test]
fn hostile_text_is_inert() {
    assert_inert(&page::page(&hostile()), 30);
}

/// A page with hostile text in more than `times` places.
pub(super) fn assert_inert(page: &str, times: usize) {
    assert!(page.matches("alert(1)").count() > times, "the control: it is everywhere: {page}");
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
    assert!(reason(&direct).unwrap().contains("does not state"));
    assert!(reason(&logs.path().join("3-build")).unwrap().contains("does not state"));
    let second = run("4-d", true);
    let third = run("5-e", true);
    assert!(reason(&first).unwrap().contains("run, 5-e,") && reason(&second).unwrap().contains("5-e"));
    assert_eq!(reason(&third), None);
    let report = Report { no_changes: reason(&first), ..Report::default() };
    assert!(page::page(&report).contains("A later run, 5-e, worked on the same copy"));
}

fn report_of(requests: &[RequestRecord]) -> Report {
    let mut report = Report::default();
    for request in requests {
        let mut line = serde_json::to_value(request).unwrap();
        for (key, value) in [("event", "request"), ("time", "2026-02-03T12:34:59.000Z")] {
            line[key] = value.into();
        }
        line["v"] = 1.into();
        report.take(LogEntry::parse(&line.to_string()).unwrap(), &Allowlist::default());
    }
    report
}

fn request(host: &str, credentials: &[&str]) -> RequestRecord {
    let asked = RequestRecord::asked("GET".to_owned(), Scheme::Https, host.to_owned(), "/x".to_owned());
    let credentials = credentials.iter().map(|name| (*name).to_owned()).collect();
    RequestRecord { decision: RequestOutcome::Allowed, masked: 1, credentials, ..asked }
}

#[test]
fn credentials_and_tokens_are_summed_on_the_page_and_in_json() {
    let tokens = |input, output| Some(Tokens { input, output });
    let report = report_of(&[
        RequestRecord { tokens: tokens(10, 2), ..request("a.example", &["API_KEY"]) },
        RequestRecord { tokens: tokens(30, 5), ..request("b.example", &["API_KEY", "TOKEN"]) },
        // A log of an older version.
        request("c.example", &[]),
        RequestRecord { masked: 0, ..request("d.example", &[]) },
    ]);
    let page = page::page(&report);
    assert!(page.contains("<dt>Tokens</dt><dd>40 in, 7 out</dd>"), "{page}");
    let row = "<code>API_KEY</code></th><td><code>a.example</code> <code>b.example</code> </td><td class=\"number\">2</td>";
    assert!(page.contains(row), "{page}");
    let json: serde_json::Value = serde_json::from_str(&content::json(&report)).unwrap();
    assert_eq!((&json["version"], &json["totals"]["tokens"]["input"]), (&1.into(), &40.into()), "{json}");
    let expected = serde_json::json!({
        "API_KEY": {"hosts": ["a.example", "b.example"], "requests": 2},
        "TOKEN": {"hosts": ["b.example"], "requests": 1},
        "(not recorded)": {"hosts": ["c.example"], "requests": 1},
    });
    assert_eq!(json["credentials"], expected);
    assert_eq!(json["requests"][1]["host"], "b.example");
    assert!(page::page(&Report::default()).contains("No masked credential was put into a request."));
}

#[test]
fn hostile_report_is_a_json_document_with_all_facts() {
    let json: serde_json::Value = serde_json::from_str(&content::json(&hostile())).unwrap();
    assert_eq!(json["refusals"][0]["method"], HOSTILE);
    for key in ["run", "project", "record", "hosts", "credentials", "requests", "replies", "changes", "git"] {
        assert!(!json[key].is_null(), "{key}");
    }
    assert!(json["changes"][0]["text"].as_str().unwrap().starts_with("--- a/"));
}

#[test]
fn page_is_usable_by_keyboard_and_screen_reader() {
    let page = page::page(&hostile());
    assert_usable(&page, 4);
    assert!(page.matches("<pre").count() > 4);
    let bars = page::page(&report_of(&[request("a.example", &[])]));
    assert!(bars.contains("<span role=\"img\" aria-label=\"began after 0.0 s, took 0.0 s\""), "{bars}");
    // Each color comes with a word or a sign.
    assert!(page.contains("BLOCKED") && page.contains("\"removed\">-") && page.contains("\"added\">+"));
}

#[test]
fn many_rows_are_listed_in_parts_and_bounded() {
    let refused = |at: usize| RequestRecord {
        decision: RequestOutcome::Blocked,
        target: format!("/{at}/{}", "x".repeat(9_000)),
        ..request(&format!("h{at}.example"), &[])
    };
    let refused: Vec<_> = (0..1_200).map(refused).collect();
    let report = Report { more_requests: 7, ..report_of(&refused) };
    let page = page::page(&report);
    for part in [
        "<caption>Requests in the order of their ends: 1 to 500</caption>",
        "<caption>Requests in the order of their ends: 1001 to 1200</caption>",
        "The first 1200 requests",
        "7 more requests are in the log",
        "1000 more blocked requests are in the log",
        "200 more hosts are in the log",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.len() < 1_000 * 1_400 * 2, "long texts are cut: {}", page.len());
    assert!(!page::page(&report_of(&refused[..3])).contains("part\""));
}

/// A page with this number of tables.
pub(super) fn assert_usable(page: &str, tables: usize) {
    let tags = |name: &str| {
        let tags = page.split('<').skip(1).filter_map(|tag| tag.split_once('>')).map(|(tag, _)| tag);
        let found = tags.filter(|tag| tag.split(' ').next() == Some(name)).map(str::to_owned);
        found.collect::<Vec<_>>()
    };
    assert_eq!((tags("table").len(), page.matches("<table><caption>").count()), (tables, tables));
    assert!(tags("th").len() > 15 && tags("th").iter().all(|tag| tag.contains("scope=\"")), "{page}");
    let scrolls =
        [tags("pre"), tags("div").into_iter().filter(|tag| tag.contains("scroll")).collect()].concat();
    assert!(scrolls.len() >= tables);
    for tag in scrolls {
        let has = |part| tag.contains(part);
        assert!(has("tabindex=\"0\"") && has("role=\"") && has("aria-label=\""), "<{tag}>");
    }
}

#[test]
fn text_has_enough_contrast_in_light_and_dark() {
    let channel = |part: &str| {
        let value = f64::from(u8::from_str_radix(part, 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    let luminance = |color: &str| {
        let [red, green, blue] = [0, 2, 4].map(|at| channel(&color[at..at + 2]));
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    };
    let contrast = |one: f64, other: f64| (one.max(other) + 0.05) / (one.min(other) + 0.05);
    let style = include_str!("style.css");
    let schemes: Vec<_> = style.lines().filter(|line| line.contains(":root {")).collect();
    assert_eq!(schemes.len(), 2);
    for scheme in schemes {
        let color = |name: &str| luminance(&scheme.split_once(&format!("--{name}: #")).unwrap().1[..6]);
        for name in ["ink", "dim", "bad", "good"] {
            let ratio = contrast(color(name), color("paper"));
            assert!(ratio >= 4.5, "{name}: {ratio:.2} in {scheme}");
        }
    }
    let grey = contrast(luminance("777777"), luminance("ffffff"));
    assert!(grey < 4.5, "the control: the former grey is too light");
}
