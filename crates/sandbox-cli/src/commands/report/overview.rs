//! The content of the report on many runs. Tasks choose names, so these are bounded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use allowlist::{Allowlist, Decision, Match, RuleKind};
use sandbox::network::{LogEntry, NetworkLog};
use sandbox::network_event::{Event, RequestOutcome, RequestRecord};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::content::{Host, each_entry, fix, refused};
use crate::commands::allowlist::url;
use crate::commands::runs::RunReport;
use crate::commands::watch::Totals;
use crate::run_folder::{KEPT, began, id_of};
use crate::run_record::RunRecord;

/// The number of hosts listed; requests to others are counted together.
pub(super) const MOST_HOSTS: usize = 1_000;
/// The number of different refusals listed.
pub(super) const MOST_REFUSALS: usize = 200;

/// The content of the page. Nothing in it is safe to show unescaped.
///
/// [`json`](super::content::json) shows all of it; its version rises when a field changes its
/// meaning or is removed.
#[derive(Debug, Default, Serialize)]
pub(super) struct Overview {
    pub(super) project: String,
    /// The runs began then or later. RFC 3339, UTC.
    pub(super) since: String,
    /// The number of runs that are kept of a project, including image builds.
    pub(super) kept: usize,
    /// When the oldest of them began.
    pub(super) oldest: Option<String>,
    /// The most expensive first.
    pub(super) runs: Vec<RunRow>,
    /// Those with the most permitted requests first.
    pub(super) hosts: Vec<HostRow>,
    pub(super) other_hosts: Host,
    /// The most frequent first.
    pub(super) refusals: Vec<RefusalRow>,
    /// The number of refused requests that are not listed.
    pub(super) other_refusals: u64,
    /// The least used first.
    pub(super) rules: Vec<RuleRow>,
    /// Logs that could not be read to their end.
    pub(super) problems: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct RunRow {
    #[serde(flatten)]
    pub(super) run: RunReport,
    #[serde(flatten)]
    pub(super) totals: Totals,
}

#[derive(Debug, Serialize)]
pub(super) struct HostRow {
    pub(super) host: String,
    #[serde(flatten)]
    pub(super) requests: Host,
    /// The number of runs that named it.
    pub(super) runs: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct RefusalRow {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) reason: String,
    pub(super) count: u64,
    /// The number of runs that met it.
    pub(super) runs: u64,
    /// How to allow it, if the current policy refuses it.
    pub(super) fix: Option<String>,
}

/// A rule of the current policy, or one of its presets.
#[derive(Debug, Serialize)]
pub(super) struct RuleRow {
    pub(super) rule: String,
    /// The permitted requests that it is the first to allow.
    pub(super) requests: u64,
}

impl Overview {
    /// The runs in `folders`, oldest first, that executed a program and began at `since` or later.
    pub(super) fn of(root: &Path, folders: &[PathBuf], since: OffsetDateTime, policy: &Allowlist) -> Self {
        let began = |folder: &Path| began(&id_of(folder));
        let mut counts = Counts::new(policy);
        let (mut runs, mut problems) = (Vec::new(), Vec::new());
        // Image builds have another policy, and no record.
        for folder in folders.iter().rev().filter(|folder| began(folder) >= Some(since)) {
            match RunRecord::read(folder) {
                Some(_) => {}
                None if RunRecord::exists(folder) => {
                    problems.push(format!("the record of run {} cannot be read", id_of(folder)));
                    continue;
                }
                None => continue,
            }

            let mut totals = Totals::default();
            let number = runs.len();
            let read = each_entry(&NetworkLog::new(folder), |entry| {
                totals.add(&entry);
                counts.add(entry, number);
            });
            match read {
                Ok(unread) => totals.unread = unread,
                Err(failure) => problems.push(format!("{failure:#}")),
            }
            runs.push(RunRow { run: RunReport::of_folder(folder), totals });
        }
        runs.sort_by(|one, other| {
            let cost = |row: &RunRow| row.run.cost().unwrap_or_default();
            let effort = |row: &RunRow| {
                let tokens = row.totals.tokens.map(|tokens| tokens.input.saturating_add(tokens.output));
                (tokens, row.totals.requests, row.run.duration_ms)
            };
            cost(other).total_cmp(&cost(one)).then_with(|| effort(other).cmp(&effort(one)))
        });
        let (hosts, other_hosts) = counts.hosts.sorted();
        let (refusals, other_refusals) = counts.refusals.sorted();
        let refusal = |(refused, used): ([String; 3], Use)| {
            let fix = fix(policy, &refused);
            let [method, url, reason] = refused;
            RefusalRow { method, url, reason, count: used.requests.blocked, runs: used.runs, fix }
        };
        let host = |(host, used): (String, Use)| HostRow { host, requests: used.requests, runs: used.runs };
        let mut rules = counts.rules;
        rules.sort_by_key(|rule| rule.requests);
        Self {
            project: root.display().to_string(),
            since: utc(since),
            kept: KEPT,
            oldest: folders.iter().find_map(|folder| began(folder)).map(utc),
            runs,
            hosts: hosts.into_iter().map(host).collect(),
            other_hosts,
            refusals: refusals.into_iter().map(refusal).collect(),
            other_refusals: other_refusals.blocked,
            rules,
            problems,
        }
    }
}

/// RFC 3339, UTC, seconds.
pub(super) fn utc(time: OffsetDateTime) -> String {
    let time = time.replace_nanosecond(0).unwrap_or(time);
    // Fails only for years beyond 9999.
    time.format(&Rfc3339).unwrap_or_default()
}

/// What the logs say, so far.
struct Counts<'a> {
    policy: &'a Allowlist,
    hosts: Most<String>,
    /// By method, URL and reason.
    refusals: Most<[String; 3]>,
    rules: Vec<RuleRow>,
}

impl<'a> Counts<'a> {
    fn new(policy: &'a Allowlist) -> Self {
        let mut rules: Vec<RuleRow> = Vec::new();
        for (place, _) in policy.places().filter(|(place, _)| allows(place.kind)) {
            let rule = name(&place);
            if rules.last().is_none_or(|last| last.rule != rule) {
                rules.push(RuleRow { rule, requests: 0 });
            }
        }
        Self { policy, hosts: Most::new(MOST_HOSTS), refusals: Most::new(MOST_REFUSALS), rules }
    }

    /// Adds an entry of the log of a run with this number.
    fn add(&mut self, entry: LogEntry, run: usize) {
        let count = entry.repeated.max(1);
        match entry.event {
            Event::Request(request) => {
                self.hosts.of(&request.host, run).add(&request, count);
                if request.decision == RequestOutcome::Blocked {
                    self.refusals.of(&refused(&request), run).add(&request, count);
                } else if let Some(rule) = self.rule(&request).map(|rule| name(&rule))
                    && let Some(used) = self.rules.iter_mut().find(|used| used.rule == rule)
                {
                    used.requests = used.requests.saturating_add(count);
                }
            }
            Event::Tunnel(tunnel) => {
                self.hosts.of(&tunnel.host, run).carried(tunnel.bytes_up, tunnel.bytes_down);
            }
            _ => {}
        }
    }

    /// The first rule of the policy that allows the request. Its index in the log is one of the
    /// policy of that time.
    fn rule(&self, request: &RequestRecord) -> Option<Match> {
        match self.policy.judge(&request.method, url(request)) {
            Decision::Allow(rule) => Some(rule),
            // The log does not have the body: a push is counted for the rule of that time if the
            // policy still has it.
            Decision::NeedsBody(check) => {
                let logged = request.rule.as_ref();
                let is_logged = |place: &Match| {
                    logged.is_some_and(|logged| {
                        let mut place = place.clone();
                        place.index = logged.index;
                        place == *logged
                    })
                };
                let same = self.policy.places().map(|(place, _)| place).find(is_logged);
                same.or_else(|| check.rule().cloned())
            }
            Decision::Deny(_) => None,
        }
    }
}

fn allows(kind: RuleKind) -> bool {
    matches!(kind, RuleKind::Domain | RuleKind::Url)
}

/// The rule for people; a preset's rules are one.
fn name(place: &Match) -> String {
    place.preset.as_ref().map_or_else(|| place.to_string(), |preset| format!("preset {preset}"))
}

/// The requests with one key.
#[derive(Debug, Default)]
struct Use {
    requests: Host,
    runs: u64,
    /// The number of the last run.
    last: Option<usize>,
}

/// Requests by a key that tasks choose: those with the keys that are used most, and the others.
#[derive(Debug)]
struct Most<K> {
    limit: usize,
    uses: BTreeMap<K, Use>,
    others: Host,
}

impl<K: Ord + Clone> Most<K> {
    fn new(limit: usize) -> Self {
        Self { limit, uses: BTreeMap::new(), others: Host::default() }
    }

    fn of(&mut self, key: &K, run: usize) -> &mut Host {
        // There is room for as many new ones to become used most.
        if self.uses.len() >= 2 * self.limit && !self.uses.contains_key(key) {
            self.uses = self.take().into_iter().collect();
        }
        let used = self.uses.entry(key.clone()).or_default();
        if used.last.replace(run) != Some(run) {
            used.runs += 1;
        }
        &mut used.requests
    }

    fn sorted(mut self) -> (Vec<(K, Use)>, Host) {
        (self.take(), self.others)
    }

    /// Those that are used most. Permitted requests count first: the policy limits their hosts.
    fn take(&mut self) -> Vec<(K, Use)> {
        let mut uses: Vec<_> = std::mem::take(&mut self.uses).into_iter().collect();
        let order = |requests: &Host| (requests.allowed.saturating_add(requests.failed), requests.blocked);
        uses.sort_by_key(|(_, used)| std::cmp::Reverse(order(&used.requests)));
        for (_, Use { requests, .. }) in uses.drain(self.limit.min(uses.len())..) {
            self.others.merge(&requests);
        }
        uses
    }
}
