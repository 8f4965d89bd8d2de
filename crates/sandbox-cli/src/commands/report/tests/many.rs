//! The report on many runs, from log files.

use std::fs;
use std::path::{Path, PathBuf};

use allowlist::Allowlist;
use sandbox::network::Tokens;
use sandbox::network_event::{BlockReason, RequestOutcome, RequestRecord, Scheme};

use super::overview::{MOST_HOSTS, MOST_REFUSALS, Overview};
use super::overview_page::page;
use super::*;

const LOG: &str = "network-sandbox.jsonl";

/// A run that began on a day of February, with a record, a log, and a cost.
fn run(logs: &Path, day: u8, cost: Option<f64>, requests: &[RequestRecord]) -> PathBuf {
    let folder = logs.join(format!("202602{day:02}T120000.000000-a{day}"));
    fs::create_dir(&folder).unwrap();
    let mut record = RunRecord::begin(Path::new("/srv"), &[HOSTILE.to_owned()]).finished(0);
    record = record.with_session(HOSTILE, "/s".into(), HOSTILE);
    if let Some(session) = &mut record.session {
        (session.cost, session.outcome) = (cost, Some(HOSTILE.to_owned()));
    }
    record.write(&folder).unwrap();
    fs::write(folder.join("network-sandbox.log"), "").unwrap();
    let lines = requests.iter().map(|request| {
        let mut line = serde_json::to_value(request).unwrap();
        for (key, value) in [("event", "request"), ("time", "2026-02-03T12:34:59.000Z")] {
            line[key] = value.into();
        }
        line["v"] = 1.into();
        format!("{line}\n")
    });
    fs::write(folder.join(LOG), lines.collect::<String>()).unwrap();
    folder
}

fn request(decision: RequestOutcome, method: &str, host: &str, target: &str) -> RequestRecord {
    let asked = RequestRecord::asked(method.to_owned(), Scheme::Https, host.to_owned(), target.to_owned());
    let blocked = decision == RequestOutcome::Blocked;
    let reason = blocked.then_some(BlockReason::Policy(allowlist::Reason::Host));
    RequestRecord { decision, reason, bytes_up: 1, bytes_down: 2, ..asked }
}

fn allowed(host: &str, target: &str) -> RequestRecord {
    request(RequestOutcome::Allowed, "GET", host, target)
}

fn blocked(host: &str, target: &str) -> RequestRecord {
    request(RequestOutcome::Blocked, "GET", host, target)
}

fn overview_of(logs: &Path, policy: &str) -> Overview {
    let policy = Allowlist::from_yaml(policy, "p").unwrap();
    let since = run_folder::began("20260205T000000.000000-a").unwrap();
    Overview::of(Path::new(HOSTILE), &run_folder::folders(logs), since, &policy)
}

fn hosts(overview: &Overview) -> Vec<(&str, u64, u64, u64)> {
    let rows = overview.hosts.iter();
    rows.map(|row| (row.host.as_str(), row.requests.allowed, row.requests.blocked, row.runs)).collect()
}

#[test]
fn runs_of_the_period_are_summed_by_host_and_refusal_and_ordered_by_cost() {
    let logs = tempfile::tempdir().unwrap();
    run(logs.path(), 4, Some(9.0), &[allowed("old.test", "/")]);
    let tokens = Some(Tokens { input: 10, output: 2 });
    run(
        logs.path(),
        5,
        Some(0.5),
        &[allowed("a.test", "/"), blocked("b.test", "/x"), blocked("b.test", "/x")],
    );
    run(logs.path(), 6, None, &[RequestRecord { tokens, ..allowed("a.test", "/") }]);
    // An agent reports any cost.
    run(logs.path(), 7, Some(1e300), &[allowed("a.test", "/"), allowed("c.test", "/")]);
    run(logs.path(), 8, Some(2.0), &[blocked("b.test", "/x")]);
    // An image build, a folder of another program, and a run without a network.
    fs::remove_file(run(logs.path(), 9, None, &[allowed("build.test", "/")]).join("run.json")).unwrap();
    fs::create_dir(logs.path().join("other")).unwrap();
    fs::remove_file(run(logs.path(), 10, None, &[]).join("network-sandbox.log")).unwrap();

    let overview = overview_of(logs.path(), "domains: [b.test]");
    let ids: Vec<_> = overview.runs.iter().map(|row| row.run.id.as_str()).collect();
    assert_eq!(ids, ["a8", "a5", "a6", "a7", "a10"]);
    assert_eq!(hosts(&overview), [("a.test", 3, 0, 3), ("c.test", 1, 0, 1), ("b.test", 0, 3, 2)]);
    let refusal =
        overview.refusals.iter().map(|row| (row.url.as_str(), row.count, row.runs, row.fix.is_some()));
    assert_eq!(refusal.collect::<Vec<_>>(), [("https://b.test/x", 3, 2, false)], "it is allowed now");
    assert_eq!(overview.problems, [""; 0]);
    assert_eq!(
        (overview.since.as_str(), overview.oldest.as_deref()),
        ("2026-02-05T00:00:00Z", Some("2026-02-04T12:00:00Z"))
    );
    let page = page(&overview);
    for text in [
        "4 allowed, 3 blocked, 0 failed",
        "$0.50",
        "10 in, 2 out",
        "the oldest of them began at 2026-02-04T12:00:00Z",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("old.test") && !page.contains("build.test"));
}

#[test]
fn rules_are_counted_by_the_current_policy_and_unused_ones_come_first() {
    let logs = tempfile::tempdir().unwrap();
    let push = request(RequestOutcome::Allowed, "POST", "git.test", "/o/r.git/git-receive-pack");
    let rule = |index: usize, path: &str| {
        let rule = serde_json::json!({"kind": "url", "index": index, "host": "git.test", "path": path});
        Some(serde_json::from_value(rule).unwrap())
    };
    run(
        logs.path(),
        6,
        None,
        &[
            // The first was allowed by a rule with the index of another one.
            RequestRecord { rule: rule(0, "/"), ..allowed("a.test", "/v1/x") },
            request(RequestOutcome::Error, "GET", "a.test", "/v1/y"),
            blocked("unused.test", "/"),
            allowed("gone.test", "/"),
            RequestRecord { rule: rule(7, "/o/r.git"), ..push.clone() },
            RequestRecord { rule: None, ..push },
        ],
    );
    let overview = overview_of(
        logs.path(),
        "presets: [github]\ndomains: [unused.test, unused.test]\nurl_prefixes:\n  - {host: a.test, path: '/v1/*'}\n  \
         - {host: git.test, path: '/o/*', git: {push: ['refs/heads/a']}}\n  \
         - {host: git.test, path: /o/r.git, git: {push: ['refs/heads/b']}}",
    );
    let rules: Vec<_> = overview.rules.iter().map(|row| (row.rule.as_str(), row.requests)).collect();
    assert_eq!(
        rules,
        [
            ("domains[0]: unused.test", 0),
            ("domains[1]: unused.test", 0),
            ("preset github", 0),
            ("url_prefixes[1]: git.test/o/*", 1),
            ("url_prefixes[2]: git.test/o/r.git", 1),
            ("url_prefixes[0]: a.test/v1/*", 2),
        ]
    );
    let row = "<code>preset github</code></th><td class=\"number\">unused</td>";
    assert!(page(&overview).contains(row), "{}", page(&overview));
    assert!(page(&overview_of(logs.path(), "")).contains("no allowlist file with rules"));
}

#[test]
fn names_that_a_task_makes_up_are_bounded_and_hide_no_host_that_was_reached() {
    let logs = tempfile::tempdir().unwrap();
    let flood = MOST_HOSTS * 3;
    let mut requests = vec![allowed("real.test", "/"), allowed("real.test", "/")];
    for number in 0..flood {
        let twice = blocked(&format!("h{number:04}.test"), "/");
        requests.extend([twice.clone(), twice.clone(), twice]);
    }
    requests.push(allowed("last.test", "/"));
    run(logs.path(), 6, None, &requests);
    let overview = overview_of(logs.path(), "");
    assert_eq!((overview.hosts.len(), overview.refusals.len()), (MOST_HOSTS, MOST_REFUSALS));
    assert_eq!(hosts(&overview)[..2], [("real.test", 2, 0, 1), ("last.test", 1, 0, 1)]);
    let all = u64::try_from(flood * 3).unwrap();
    let listed: u64 = overview.hosts.iter().map(|row| row.requests.blocked).sum();
    assert_eq!(listed + overview.other_hosts.blocked, all, "all are counted");
    assert_eq!(overview.refusals.iter().map(|row| row.count).sum::<u64>() + overview.other_refusals, all);
    assert!(page(&overview).contains("all others"));
}

#[test]
fn unreadable_log_is_a_problem_that_names_it_and_the_others_count() {
    let logs = tempfile::tempdir().unwrap();
    let unreadable = run(logs.path(), 6, Some(1.0), &[]).join(LOG);
    fs::remove_file(&unreadable).unwrap();
    fs::create_dir(&unreadable).unwrap();
    let newer = run(logs.path(), 7, None, &[allowed("a.test", "/")]).join(LOG);
    let lines = fs::read_to_string(&newer).unwrap();
    fs::write(&newer, format!("{{\"v\":2}}\n\u{1b}[31mnonsense\n{lines}")).unwrap();
    let overview = overview_of(logs.path(), "");
    assert!(matches!(&overview.problems[..], [problem] if problem.contains(unreadable.to_str().unwrap())));
    // A record that is damaged counts as one too; a damaged count is the largest.
    let damaged = run(logs.path(), 8, None, &[allowed("b.test", "/")]);
    fs::write(damaged.join("run.json"), "{").unwrap();
    let log = run(logs.path(), 9, None, &[blocked("c.test", "/"), blocked("c.test", "/")]).join(LOG);
    let most = format!("{{\"repeated\":{},", u64::MAX);
    fs::write(&log, fs::read_to_string(&log).unwrap().replace('{', &most)).unwrap();
    let damaged = overview_of(logs.path(), "");
    assert!(
        damaged.problems.iter().any(|problem| problem.contains("20260208T120000")),
        "{:?}",
        damaged.problems
    );
    let counts = [("a.test", 1, 0, 1), ("c.test", 0, u64::MAX, 1)];
    assert_eq!((hosts(&damaged), damaged.runs.len()), (counts.to_vec(), 3));
    assert_eq!((hosts(&overview), overview.runs.len()), (vec![("a.test", 1, 0, 1)], 2));
    let page = page(&overview);
    assert!(
        page.contains("What could not be read is not counted") && page.contains("2 entries of the logs"),
        "{page}"
    );
}

#[test]
fn hostile_names_are_inert_and_the_page_is_usable_by_keyboard_and_screen_reader() {
    let logs = tempfile::tempdir().unwrap();
    for decision in [RequestOutcome::Allowed, RequestOutcome::Blocked, RequestOutcome::Error] {
        let hostile = request(decision, HOSTILE, HOSTILE, HOSTILE);
        run(logs.path(), 6 + decision as u8, Some(f64::MAX), &[hostile]);
    }
    let mut overview = overview_of(logs.path(), "domains: [a.test]");
    overview.problems.push(HOSTILE.to_owned());
    let page = page(&overview);
    assert_inert(&page, 8);
    assert_usable(&page, 4);
    let json: serde_json::Value = serde_json::from_str(&content::json(&overview)).unwrap();
    assert_eq!((&json["version"], &json["hosts"][0]["host"]), (&1.into(), &HOSTILE.into()));
    for key in ["project", "since", "kept", "oldest", "runs", "other_hosts", "refusals", "rules", "problems"]
    {
        assert!(!json[key].is_null(), "{key}");
    }
    assert_eq!(json["runs"][0]["program"].as_str().unwrap()[..8], HOSTILE[..8]);
}

#[test]
fn project_without_runs_in_the_period_has_an_empty_report() {
    let logs = tempfile::tempdir().unwrap();
    run(logs.path(), 1, None, &[allowed("a.test", "/")]);
    let page = page(&overview_of(logs.path(), "domains: [a.test]"));
    for text in ["No runs.", "No requests.", "No request was blocked.", "domains[0]: a.test", "unused"] {
        assert!(page.contains(text), "{text}: {page}");
    }
}
