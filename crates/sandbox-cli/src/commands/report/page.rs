//! The page. Every text passes through [`shown`], and `maud` escapes the rest; there are no scripts
//! and no links.

use std::cmp::Reverse;

use claude_output::{ContentBlock, EventKind, StreamEvent};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sandbox::network_event::RequestOutcome;
use sandbox::session::SessionReply;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::MOST_CHANGES;
use super::content::{Host, Refusal, Report, Row};
use super::overview::{MOST_HOSTS, MOST_REFUSALS};
use crate::git_report::{coming, staying};
use crate::printer::sanitize;

/// The maximum number of characters of one text.
const LONGEST: usize = 20_000;

/// The maximum number of characters of a text in a table; the log has all.
const LONGEST_CELL: usize = 500;

/// The maximum number of rows of one table: browsers lay out those that are visible.
const PART: usize = 500;

/// The maximum number of hosts that are shown of a credential.
const HOSTS_OF_CREDENTIAL: usize = 20;

/// The browser enforces it, regardless of the content.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = include_str!("style.css");

/// A text from another party: characters that hide, move or reorder text become visible, and long
/// text is cut.
pub(super) fn shown(text: &str) -> String {
    sanitize(&cut(text))
}

/// As [`shown`], in a table.
pub(super) fn brief(text: &str) -> String {
    sanitize(&cut_to(text, LONGEST_CELL))
}

/// The part of a text that is shown.
pub(super) fn cut(text: &str) -> String {
    cut_to(text, LONGEST)
}

fn cut_to(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some((end, _)) => {
            let rest = text.len() - end;
            format!("{}… [{rest} more bytes]", text.get(..end).unwrap_or_default())
        }
    }
}

pub(super) fn page(report: &Report) -> String {
    let main = html! {
        (refusals(report))
        (hosts(report))
        (credentials(report))
        (requests(report))
        (conversation(report))
        (changes(report))
    };
    document(&format!("Run {}", report.run), &facts(report), &main)
}

/// A whole page with this title.
pub(super) fn document(title: &str, facts: &Markup, main: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="referrer" content="no-referrer";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (shown(title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (shown(title)) } (facts) }
                main { (main) }
            }
        }
    }
    .into_string()
}

fn facts(report: &Report) -> Markup {
    let count = |decision: fn(&Host) -> u64| report.hosts.values().map(decision).fold(0, u64::saturating_add);
    let mut facts = vec![("Project", shown(&report.project))];
    if let Some(record) = &report.record {
        facts.push(("Command", brief(&record.command)));
        facts.push(("Began", shown(&record.began)));
        facts.push(match &record.end {
            Some(end) => ("Took", format!("{:.1} s", seconds(end.duration_ms))),
            None => ("Took", "unknown end".to_owned()),
        });
        facts.extend(record.end.as_ref().map(|end| ("Exit code", end.exit_code.to_string())));
        if let Some(session) = &record.session {
            facts.extend(session.outcome.as_ref().map(|outcome| ("Outcome", brief(outcome))));
            facts.extend(session.id.as_ref().map(|id| ("Session", brief(id))));
            facts.extend(session.turns.map(|turns| ("Turns", turns.to_string())));
            facts.extend(session.cost.map(|cost| ("Cost", format!("${cost:.4}"))));
        }
    }
    let tokens = report.totals.tokens.map(|tokens| format!("{} in, {} out", tokens.input, tokens.output));
    facts.extend(tokens.map(|tokens| ("Tokens", tokens)));
    facts.push((
        "Requests",
        format!(
            "{} allowed, {} blocked, {} failed",
            count(|host| host.allowed),
            count(|host| host.blocked),
            count(|host| host.failed)
        ),
    ));
    html! {
        (list(&facts))
        @if report.totals.unread > 0 {
            p.note { (report.totals.unread) " entries of the network log have another version and are not shown." }
        }
    }
}

pub(super) fn list(facts: &[(&str, String)]) -> Markup {
    html! { dl { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

/// A table that scrolls sideways where it is too wide, also by keyboard; `columns` that begin with
/// `#` hold numbers.
pub(super) fn table(caption: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead { tr { @for column in columns {
                    @let name = column.trim_start_matches('#');
                    th scope="col" class=[(name != *column).then_some("number")] { (name) }
                } } }
                tbody { (rows) }
            }
        }
    }
}

/// As [`table`], in parts if there are many rows.
fn tables(caption: &str, columns: &[&str], rows: &[Markup]) -> Markup {
    if rows.len() <= PART {
        return table(caption, columns, &html! { @for row in rows { (row) } });
    }
    html! {
        @for (before, part) in (0..).step_by(PART).zip(rows.chunks(PART)) {
            @let caption = format!("{caption}: {} to {}", before + 1, before + part.len());
            div.part { (table(&caption, columns, &html! { @for row in part { (row) } })) }
        }
    }
}

/// A text that scrolls where it is too long, also by keyboard.
fn text(label: &str, class: &str, text: &Markup) -> Markup {
    html! { pre class=(class) role="group" aria-label=(label) tabindex="0" { (text) } }
}

fn refusals(report: &Report) -> Markup {
    let mut refusals: Vec<_> = report.refusals.iter().collect();
    refusals.sort_by_key(|(_, refusal)| Reverse(refusal.count));
    let row = |([method, url, reason], refusal): &(&[String; 3], &Refusal)| {
        html! {
            tr {
                td { code { (brief(method)) " " (brief(url)) } }
                td.word { (brief(reason)) }
                td.number { (refusal.count) }
                td { (refusal.fix.as_deref().map(shown).unwrap_or_default()) }
            }
        }
    };
    let rows: Vec<_> = refusals.iter().take(MOST_REFUSALS).map(row).collect();
    html! {
        section {
            h2 { "Blocked" }
            @if rows.is_empty() { p { "No request was blocked." } }
            @else { (tables("Blocked requests, and how to allow them", &["Request", "Reason", "#Times", "To allow it"], &rows)) }
            (more(refusals.len() - rows.len(), "blocked requests", report))
        }
    }
}

fn hosts(report: &Report) -> Markup {
    let mut hosts: Vec<_> = report.hosts.iter().collect();
    // The policy limits the number of hosts with permitted requests.
    hosts.sort_by_key(|(_, host)| Reverse(host.allowed.saturating_add(host.failed)));
    let row = |(name, host): &(&String, &Host)| html! { tr { th scope="row" { code { (brief(name)) } } (numbers(host)) } };
    let rows: Vec<_> = hosts.iter().take(MOST_HOSTS).map(row).collect();
    let columns = ["Host", "#Allowed", "#Blocked", "#Failed", "#Sent", "#Received"];
    html! {
        section {
            h2 { "Hosts" }
            @if rows.is_empty() { p { "No requests." } }
            @else { (tables("Requests and bytes by host", &columns, &rows)) }
            (more(hosts.len() - rows.len(), "hosts", report))
        }
    }
}

/// States that some are not listed, if they are not.
fn more(count: usize, what: &str, report: &Report) -> Markup {
    html! {
        @if count > 0 {
            p.note { (count) " more " (what) " are in the log: " code { "sandbox logs --run " (shown(&report.run)) } }
        }
    }
}

/// The cells of a host's row.
pub(super) fn numbers(host: &Host) -> Markup {
    html! {
        td.number { (host.allowed) } td.number { (host.blocked) } td.number { (host.failed) }
        td.number { (bytes(host.bytes_up)) } td.number { (bytes(host.bytes_down)) }
    }
}

fn credentials(report: &Report) -> Markup {
    let rows = html! {
        @for (name, credential) in &report.credentials {
            tr {
                th scope="row" { code { (brief(name)) } }
                td {
                    @for host in credential.hosts.iter().take(HOSTS_OF_CREDENTIAL) { code { (brief(host)) } " " }
                    @if let Some(more @ 1..) = credential.hosts.len().checked_sub(HOSTS_OF_CREDENTIAL) { "and " (more) " more" }
                }
                td.number { (credential.requests) }
            }
        }
    };
    html! {
        section {
            h2 { "Masked credentials" }
            @if report.credentials.is_empty() { p { "No masked credential was put into a request." } }
            @else { (table("Masked credentials that were put into requests", &["Name", "Hosts", "#Requests"], &rows)) }
        }
    }
}

fn requests(report: &Report) -> Markup {
    // A request is recorded at its end.
    let end = |row: &Row| OffsetDateTime::parse(&row.time, &Rfc3339).ok();
    let spans: Vec<_> = report
        .requests
        .iter()
        .map(|row| {
            let took =
                time::Duration::milliseconds(i64::try_from(row.request.duration_ms).unwrap_or(i64::MAX));
            let end = end(row)?;
            Some((end.checked_sub(took)?, end))
        })
        .collect();
    let first = spans.iter().flatten().map(|(begin, _)| *begin).min();
    let last = spans.iter().flatten().map(|(_, end)| *end).max();
    let whole = first.zip(last).map_or(0.0, |(first, last)| (last - first).as_seconds_f64()).max(0.001);
    let bar = |span: &Option<(OffsetDateTime, OffsetDateTime)>| {
        let (begin, end) = (*span)?;
        let (after, took) = ((begin - first?).as_seconds_f64(), (end - begin).as_seconds_f64());
        let style = format!("margin-left:{:.2}%;width:{:.2}%", 100.0 * after / whole, 100.0 * took / whole);
        Some((style, format!("began after {after:.1} s, took {took:.1} s")))
    };
    let row = |(row, span): (&Row, &Option<_>)| {
        let request = &row.request;
        html! {
            tr class=(class(request.decision)) {
                td.word { (brief(row.time.get(11..23).unwrap_or(&row.time))) }
                td { code {
                    (brief(&request.method)) " " (request.scheme) "://" (brief(&request.host)) (brief(&request.target))
                } }
                td {
                    (word(request.decision))
                    @if let Some(status) = request.status { " " (status) }
                    @if let Some(reason) = request.reason { ", " (reason) }
                    @if let Some(error) = &request.error { ": " (brief(error)) }
                }
                td.number { (request.duration_ms) " ms" }
                td.bar { @if let Some((style, label)) = bar(span) {
                    span role="img" aria-label=(label) style=(style) {}
                } }
            }
        }
    };
    let rows: Vec<_> = report.requests.iter().zip(&spans).map(row).collect();
    let columns = ["Ended", "Request", "Result", "#Took", "When"];
    html! {
        section {
            h2 { "Requests" }
            details open {
                summary { @if report.more_requests > 0 { "The first " } (rows.len()) " requests" }
                (tables("Requests in the order of their ends", &columns, &rows))
            }
            (more(usize::try_from(report.more_requests).unwrap_or(usize::MAX), "requests", report))
        }
    }
}

fn conversation(report: &Report) -> Markup {
    if report.untrusted_session {
        return html! {
            section { h2 { "Conversation" } p.note { "Not shown, because tasks can write to the session's folder." } }
        };
    }
    if report.replies.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Conversation" }
            @for reply in &report.replies { (turn(reply)) }
        }
    }
}

fn turn(reply: &SessionReply) -> Markup {
    html! {
        article {
            h3 { "Prompt" }
            (text("Prompt", "", &html! { (shown(&reply.request_text)) }))
            @for event in &reply.events { (blocks(event)) }
            @if reply.missing.events > 0 {
                p.note { (reply.missing.events) " more events exceeded the session's limit." }
            }
        }
    }
}

fn blocks(event: &StreamEvent) -> Markup {
    let (EventKind::Assistant(message) | EventKind::User(message)) = event.kind() else {
        return html! {};
    };
    let inner = event.parent_tool_use_id().map_or("", |_| "inner");
    html! {
        @for block in &message.content {
            @match block {
                ContentBlock::Text(text) if matches!(event.kind(), EventKind::Assistant(_)) && !text.trim().is_empty() => {
                    h3 class=(inner) { "Answer" }
                    (self::text("Answer", &format!("answer {inner}"), &html! { (shown(text)) }))
                }
                ContentBlock::ToolUse(tool) => {
                    details.tool class=(inner) {
                        summary { "Tool call: " (shown(&tool.name)) }
                        @let input = serde_json::to_string_pretty(&tool.input).unwrap_or_default();
                        (text("Input of the tool", "", &html! { (shown(&input)) }))
                    }
                }
                ContentBlock::ToolResult(result) => {
                    details.result class=(inner) {
                        summary { @if result.is_error { "failed" } @else { "result" } }
                        (text("Result of the tool", "", &html! { (shown(&result.text())) }))
                    }
                }
                _ => {}
            }
        }
    }
}

fn changes(report: &Report) -> Markup {
    // Withheld ones come first, so that no number of others hides them.
    let git: Vec<String> = staying(&report.git).into_iter().chain(coming(&report.git)).collect();
    let more = report.more_changes + git.len().saturating_sub(MOST_CHANGES);
    let git = git.iter().take(MOST_CHANGES).map(|line| shown(line));
    // These are cut already.
    let files = report.changes.iter().map(|change| sanitize(&change.text));
    let all: Vec<String> = files.chain(git).collect();
    let kind = |line: &str| match line.as_bytes().first() {
        Some(b'+') => Some("added"),
        Some(b'-') => Some("removed"),
        _ => None,
    };
    html! {
        section {
            h2 { "Changes that wait in the copy of the work tree" }
            @if let Some(reason) = &report.no_changes { p { (shown(reason)) } }
            @else if all.is_empty() {
                p { "None: they were applied or discarded, or the run changed nothing." }
            }
            @for change in &all {
                @let lines = html! { @for line in change.lines() { span class=[kind(line)] { (line) "\n" } } };
                (text("Change", "patch", &lines))
            }
            @if more > 0 {
                p.note { (more) " more changes: " code { "sandbox diff" } }
            }
        }
    }
}

fn word(decision: RequestOutcome) -> &'static str {
    match decision {
        RequestOutcome::Allowed => "allowed",
        RequestOutcome::Blocked => "BLOCKED",
        RequestOutcome::Error => "failed",
    }
}

fn class(decision: RequestOutcome) -> &'static str {
    match decision {
        RequestOutcome::Allowed => "allowed",
        RequestOutcome::Blocked => "blocked",
        RequestOutcome::Error => "failed",
    }
}

pub(super) fn seconds(milliseconds: u64) -> f64 {
    std::time::Duration::from_millis(milliseconds).as_secs_f64()
}

pub(super) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..0x10_0000 => format!("{} KiB", count >> 10),
        _ => format!("{} MiB", count >> 20),
    }
}
