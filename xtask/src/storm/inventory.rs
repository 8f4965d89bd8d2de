//! The inventory of an engine and its host: containers, networks, mounts, interfaces, rules,
//! processes, files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::field::{Field, PREFIX};
use super::report::Report;
use crate::process::{self, command};

/// Objects that only the engine can remove: a service that is killed during a start does not remove
/// them, see `docs/reliability.md`.
const OF_THE_ENGINE: [&str; 4] = ["mounts", "interfaces", "network namespaces", "rules"];

/// The number of objects of each kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inventory {
    counts: Vec<(&'static str, u64)>,
    /// The resident memory of the engine's service in KiB, and its open descriptors: they vary.
    pub(super) resident: u64,
    pub(super) descriptors: u64,
    /// Files of the state folder.
    pub(super) files: u64,
}

impl Inventory {
    pub(super) fn take(field: &Field) -> Result<Self> {
        let engine = format!("/proc/{}", field.engine);
        let counts = vec![
            ("containers", labelled(field, "containers/json?all=true&")?),
            ("networks", labelled(field, "networks/json?")?),
            ("mounts", lines(&format!("{engine}/mountinfo"))),
            ("interfaces", printed(field, &["cat", "/proc/self/net/dev"])),
            ("network namespaces", entries(&format!("{engine}/root/run/netns"))),
            ("rules", printed(field, &["nft", "list", "ruleset"]) + printed(field, &["iptables-save"])),
            ("monitors", monitors(&engine)),
        ];
        Ok(Self {
            counts,
            resident: status(&engine, "VmRSS"),
            descriptors: entries(&format!("{engine}/fd")),
            files: files(&field.state()),
        })
    }

    /// The inventory once its counts no longer change, or after two minutes.
    pub(super) fn settled(field: &Field) -> Result<Self> {
        let deadline = Instant::now() + Duration::from_mins(2);
        let mut before = Self::take(field)?;
        loop {
            // tidy: sleep: there is no event for an idle engine.
            std::thread::sleep(Duration::from_secs(2));
            let now = Self::take(field)?;
            if now.counts == before.counts || Instant::now() > deadline {
                return Ok(now);
            }
            before = now;
        }
    }

    /// One of the counts.
    pub(super) fn count(&self, name: &str) -> u64 {
        let found = self.counts.iter().find(|(counted, _)| *counted == name);
        found.map_or(0, |(_, count)| *count)
    }

    /// Adds the objects that a killed engine did not remove to this inventory, so that they do not
    /// count as left.
    pub(super) fn excuse(&mut self, now: &Self) {
        for ((name, then), (_, now)) in self.counts.iter_mut().zip(&now.counts) {
            if OF_THE_ENGINE.contains(name) {
                *then = (*then).max(*now);
            }
        }
    }

    /// Compares with the inventory before a storm: no count may have increased.
    pub(super) fn compare(&self, before: &Self, report: &mut Report) {
        let mut left = Vec::new();
        for ((name, now), (_, then)) in self.counts.iter().zip(&before.counts) {
            if now > then {
                report.problem(format!("{} {name} are left", now - then));
            }
            left.push(format!("{name} {}", now.saturating_sub(*then)));
        }
        report.row("left afterwards", left.join(", "));
        report.row(
            "engine before and afterwards",
            format!(
                "{} → {} MiB, {} → {} descriptors",
                before.resident >> 10,
                self.resident >> 10,
                before.descriptors,
                self.descriptors
            ),
        );
        report.row("files of the state folder", format!("{} → {}", before.files, self.files));
    }
}

fn labelled(field: &Field, path: &str) -> Result<u64> {
    let filters = format!("filters=%7B%22label%22%3A%5B%22sandbox.owner%3D{PREFIX}%22%5D%7D");
    let answer = field.socket.request("GET", &format!("/v4.0.0/libpod/{path}{filters}"))?;
    let list: Value = serde_json::from_str(&answer.ok()?)?;
    Ok(list.as_array().map_or(0, Vec::len) as u64)
}

fn lines(path: &str) -> u64 {
    fs::read_to_string(path).unwrap_or_default().lines().count() as u64
}

fn entries(path: &str) -> u64 {
    fs::read_dir(path).map_or(0, Iterator::count) as u64
}

fn status(process: &str, field: &str) -> u64 {
    let text = fs::read_to_string(format!("{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// The number of lines that `program` prints in the engine's mount namespace and the network
/// namespace of its bridges.
fn printed(field: &Field, program: &[&str]) -> u64 {
    let mut enter = command("nsenter", ["--target", &field.engine.to_string(), "--mount", "--root"]);
    enter.arg(format!("--net={}", field.network.display())).arg("--").args(program);
    process::output(&mut enter).unwrap_or_default().lines().count() as u64
}

/// The number of container monitors, which are in the engine's mount namespace.
fn monitors(engine: &str) -> u64 {
    let namespace = |process: &Path| fs::metadata(process.join("ns/mnt")).ok().map(|facts| facts.ino());
    let own = namespace(Path::new(engine));
    let Ok(processes) = fs::read_dir("/proc") else {
        return 0;
    };
    let is_monitor = |process: &Path| {
        fs::read(process.join("comm")).is_ok_and(|name| name == b"conmon\n") && namespace(process) == own
    };
    processes.filter_map(Result::ok).filter(|entry| is_monitor(&entry.path())).count() as u64
}

fn files(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path()),
            _ => 1,
        })
        .sum()
}
