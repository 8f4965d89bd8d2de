//! The page on many runs.

use maud::{Markup, html};
use time::OffsetDateTime;

use super::content::Host;
use super::overview::{Overview, utc};
use super::page::{brief, bytes, document, list, numbers, seconds, shown, table};

pub(super) fn page(overview: &Overview) -> String {
    let main = html! { (runs(overview)) (hosts(overview)) (refusals(overview)) (rules(overview)) };
    document(&format!("Runs since {}", overview.since), &facts(overview), &main)
}

fn facts(overview: &Overview) -> Markup {
    let mut all = Host::default();
    overview
        .hosts
        .iter()
        .map(|row| &row.requests)
        .chain([&overview.other_hosts])
        .for_each(|one| all.merge(one));
    let requests = format!("{} allowed, {} blocked, {} failed", all.allowed, all.blocked, all.failed);
    let facts = [
        ("Project", shown(&overview.project)),
        ("Runs", overview.runs.len().to_string()),
        ("Requests", requests),
        ("Sent", bytes(all.bytes_up)),
        ("Received", bytes(all.bytes_down)),
    ];
    let unread = overview.runs.iter().map(|row| row.totals.unread).sum::<u64>();
    html! {
        (list(&facts))
        p.note {
            "Runs of this project that executed a program and began since " (overview.since) "; not those in work trees of \
             their own (--worktree, --each). The newest "
            (overview.kept) " runs are kept, including image builds"
            @if let Some(oldest) = &overview.oldest { "; the oldest of them began at " (oldest) }
            "."
        }
        @for problem in &overview.problems { p.note { (shown(problem)) ". What could not be read is not counted." } }
        @if unread > 0 { p.note { (unread) " entries of the logs have another version and are not counted." } }
    }
}

fn runs(overview: &Overview) -> Markup {
    let rows = html! {
        @for row in &overview.runs {
            @let (run, totals) = (&row.run, &row.totals);
            @let began = i64::try_from(run.started_ms / 1000).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
            tr {
                th scope="row" { code { (brief(&run.id)) } }
                td { code { (brief(&run.program)) } }
                td { (brief(&run.state_text())) }
                td.word { (began.map(utc).unwrap_or_default()) }
                td.number { (run.cost_text().unwrap_or_default()) }
                td.number { @if let Some(tokens) = totals.tokens { (tokens.input) " in, " (tokens.output) " out" } }
                td.number { (totals.requests) } td.number { (totals.blocked) }
                td.number { (bytes(totals.bytes_up)) } td.number { (bytes(totals.bytes_down)) }
                td.number { @if let Some(took) = run.duration_ms { (format!("{:.1} s", seconds(took))) } }
            }
        }
    };
    let columns = [
        "Run",
        "Program",
        "Result",
        "Began",
        "#Cost",
        "#Tokens",
        "#Passed",
        "#Blocked",
        "#Sent",
        "#Received",
        "#Took",
    ];
    section(
        "Runs",
        "No runs.",
        overview.runs.is_empty(),
        &table("Runs, the most expensive first", &columns, &rows),
    )
}

fn hosts(overview: &Overview) -> Markup {
    let rows = html! {
        @for row in &overview.hosts {
            tr { th scope="row" { code { (brief(&row.host)) } } (numbers(&row.requests)) td.number { (row.runs) } }
        }
        @if overview.other_hosts != Host::default() {
            tr { th scope="row" { "all others" } (numbers(&overview.other_hosts)) td {} }
        }
    };
    let columns = ["Host", "#Allowed", "#Blocked", "#Failed", "#Sent", "#Received", "#Runs"];
    let bound = bound(overview.other_hosts != Host::default());
    section(
        "Hosts",
        "No requests.",
        overview.hosts.is_empty(),
        &table(
            &format!("Requests by host, those with the most permitted requests first{bound}"),
            &columns,
            &rows,
        ),
    )
}

fn refusals(overview: &Overview) -> Markup {
    let rows = html! {
        @for row in &overview.refusals {
            tr {
                td { code { (brief(&row.method)) " " (brief(&row.url)) } }
                td.word { (brief(&row.reason)) }
                td.number { (row.count) } td.number { (row.runs) }
                td { (row.fix.as_deref().map(shown).unwrap_or_default()) }
            }
        }
        @if overview.other_refusals > 0 { tr { td { "all others" } td {} td.number { (overview.other_refusals) } td {} td {} } }
    };
    let columns = ["Request", "Reason", "#Times", "#Runs", "To allow it"];
    let bound = bound(overview.other_refusals > 0);
    section(
        "Blocked",
        "No request was blocked.",
        overview.refusals.is_empty(),
        &table(&format!("Blocked requests, the most frequent first{bound}"), &columns, &rows),
    )
}

/// States that what came back after it gave way to others was counted anew.
fn bound(is_bound: bool) -> &'static str {
    if is_bound { "; there were too many to count each, so the numbers are lower bounds" } else { "" }
}

fn rules(overview: &Overview) -> Markup {
    let rows = html! {
        @for row in &overview.rules {
            tr { th scope="row" { code { (brief(&row.rule)) } } td.number { @if row.requests == 0 { "unused" } @else { (row.requests) } } }
        }
    };
    let inner = html! {
        p.note {
            "The permitted requests of these runs, judged again by the policy as it is now: each counts for the first \
             rule that allows it. Older runs may have used the others."
        }
        (table("Rules of the policy, the least used first", &["Rule", "#Requests"], &rows))
    };
    section(
        "Rules",
        "The project has no allowlist file with rules; the default policy of an agent is not counted.",
        overview.rules.is_empty(),
        &inner,
    )
}

fn section(title: &str, none: &str, is_empty: bool, inner: &Markup) -> Markup {
    html! { section { h2 { (title) } @if is_empty { p { (none) } } @else { (inner) } } }
}
