//! Enforces the limits of individual commands.
//!
//! No mechanism of the kernel that is available to PID 1 does this: control groups are read-only
//! here, and resource limits apply to one process each, or to all processes of a user. So PID 1
//! polls, and kills commands that exceed their limits. No process can leave its command, so none
//! escapes the count.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use sandbox_inside::{CommandLimits, ExceededLimit};

use super::processes::{self, Process};

/// Time between the end of a check and the next one.
const INTERVAL: Duration = Duration::from_millis(50);
/// Checking many processes takes long: PID 1 spends at most one part in `SHARE` of its time on it.
const SHARE: u32 = 10;
/// A process started by `vfork` uses its parent's memory until it executes its program, a moment
/// later.
const YOUNG: Duration = Duration::from_secs(1);

/// The schedule of checks.
#[derive(Debug)]
pub(super) struct Watch(Instant);

impl Watch {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Time until the next check.
    pub(super) fn wait(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Those of `commands` that exceed a limit, if a check is due: numbers, each with its subreaper
    /// and its limits.
    pub(super) fn look(
        &mut self,
        commands: impl Iterator<Item = (u32, i32, CommandLimits)>,
    ) -> io::Result<Vec<(u32, ExceededLimit)>> {
        let mut limited = commands.filter(|(.., limits)| *limits != CommandLimits::default()).peekable();
        let begun = Instant::now();
        if begun < self.0 || limited.peek().is_none() {
            return Ok(Vec::new());
        }
        let processes = processes::list()?;
        let exceeded = limited
            .filter_map(|(command, subreaper, limits)| {
                Some((command, exceeded(&processes, subreaper, limits)?))
            })
            .collect();
        self.0 = Instant::now() + INTERVAL.max(begun.elapsed() * SHARE);
        Ok(exceeded)
    }
}

fn exceeded(processes: &[Process], subreaper: i32, limits: CommandLimits) -> Option<ExceededLimit> {
    let below = processes::below(processes, subreaper, &[].into());
    let own = || processes.iter().filter(|process| below.contains(&process.pid));
    if limits.pids.is_some_and(|limit| own().map(|process| process.threads).sum::<u64>() > u64::from(limit)) {
        return Some(ExceededLimit::Pids);
    }
    let limit = limits.memory?;
    // The first is fast, but counts shared memory once for each process; the second is exact.
    let is_over = |memory: fn(i32) -> Option<u64>| own_memory(own(), memory) > limit;
    (is_over(resident) && is_over(|pid| proportional(pid).or_else(|| resident(pid))))
        .then_some(ExceededLimit::Memory)
}

/// Bytes of memory of `processes`; `memory` returns that of one. Exited processes have none.
fn own_memory<'a>(processes: impl Iterator<Item = &'a Process>, memory: fn(i32) -> Option<u64>) -> u64 {
    let by_pid: BTreeMap<i32, &Process> = processes.map(|process| (process.pid, process)).collect();
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default();
    let uses_its_parents = |process: &Process| {
        let parent = by_pid.get(&process.parent);
        let has_its_size = parent.is_some_and(|parent| parent.size == process.size);
        has_its_size && now.saturating_sub(process.started) < YOUNG
    };
    let own = by_pid.values().filter(|process| !uses_its_parents(process));
    own.filter_map(|process| memory(process.pid)).sum()
}

/// Anonymous memory of the process, including swap.
fn resident(pid: i32) -> Option<u64> {
    sum(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, &["RssAnon", "RssShmem", "VmSwap"])
}

/// The same, with a proportional share of shared memory. `None` also if the program hides this from
/// us.
fn proportional(pid: i32) -> Option<u64> {
    sum(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, &["Pss_Anon", "Pss_Shmem", "SwapPss"])
}

/// The sum of these fields, in bytes. A process that is ending has none.
fn sum(text: &str, fields: &[&str]) -> Option<u64> {
    let value = |field: &&str| {
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    let found: Vec<u64> = fields.iter().filter_map(value).collect();
    (found.len() == fields.len()).then(|| found.iter().sum::<u64>() << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, threads: u64) -> Process {
        Process { pid, parent, threads, started: Duration::ZERO, size: 0 }
    }

    #[test]
    fn threads_of_a_commands_own_processes_are_counted() {
        let processes = [process(20, 1, 1), process(21, 20, 3), process(22, 21, 1), process(30, 1, 9)];
        for (subreaper, limit, expected) in [
            (20, 4, None),
            (20, 3, Some(ExceededLimit::Pids)),
            (30, 0, None),
            (1, 13, Some(ExceededLimit::Pids)),
        ] {
            let limits = CommandLimits { memory: None, pids: Some(limit) };
            assert_eq!(exceeded(&processes, subreaper, limits), expected, "{subreaper} {limit}");
        }
    }

    #[test]
    fn memory_shared_with_a_parent_is_counted_once() {
        let now = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap());
        let child = |started, size| Process { started, size, ..process(22, 21, 1) };
        let parent = Process { size: 7, ..process(21, 20, 1) };
        // A child that starts in an hour: as young as possible.
        let later = now + Duration::from_hours(1);
        for (child, expected) in [
            (child(later, 7), 10),
            (child(later, 8), 20),
            (child(Duration::ZERO, 7), 20),
            (Process { parent: 20, ..child(later, 7) }, 20),
        ] {
            assert_eq!(own_memory([&parent, &child].into_iter(), |_| Some(10)), expected, "{child:?}");
        }
        assert_eq!(own_memory([&parent].into_iter(), |_| None), 0);
    }

    #[test]
    fn memory_is_read_from_the_kernel() {
        let own = i32::try_from(std::process::id()).unwrap();
        let memory = vec![7_u8; 64 << 20];
        assert!(resident(own).unwrap() >= memory.len() as u64);
        assert!(proportional(own).unwrap() >= memory.len() as u64);
        assert_eq!(resident(0), None);
        assert_eq!(
            sum("Name:\tRssAnon: 1 kB\nRssAnon:\t  3 kB\nVmSwap:\t1 kB\n", &["RssAnon", "VmSwap"]),
            Some(4096)
        );
        assert_eq!(sum("RssAnon:\t3 kB\n", &["RssAnon", "VmSwap"]), None);
    }

    #[test]
    fn checks_are_spaced_apart() {
        let mut watch = Watch::new();
        let limits = |pids| CommandLimits { memory: None, pids };
        assert_eq!(watch.look([(1, 1, limits(None))].into_iter()).unwrap(), []);
        assert!(watch.wait().is_zero(), "it was not looked at");
        assert_eq!(
            watch.look([(1, 1, limits(Some(0))), (2, -1, limits(Some(0)))].into_iter()).unwrap().len(),
            1
        );
        assert!(!watch.wait().is_zero());
        assert_eq!(watch.look([(1, 1, limits(Some(0)))].into_iter()).unwrap(), [], "not yet");
    }
}
