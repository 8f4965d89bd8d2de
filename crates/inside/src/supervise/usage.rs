//! Whether commands keep to limits of their own.
//!
//! Nothing that PID 1 may use makes the kernel do this: control groups are read-only here, and
//! limits on processes are for one process each, or for all of a user, whichever command they are
//! of. So PID 1 looks, and kills what is over its limit. No process leaves its command, so none can
//! leave what is counted.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use sandbox_inside::{CommandLimits, ExceededLimit};

use super::processes::{self, Process};

/// From the end of a look to the next one.
const INTERVAL: Duration = Duration::from_millis(50);
/// Many processes take long to look at: of its time, PID 1 spends one part in so many on it.
const SHARE: u32 = 10;
/// A process that was started by `vfork` uses its parent's memory until it starts its program, a
/// moment later.
const YOUNG: Duration = Duration::from_secs(1);

/// When commands are looked at.
#[derive(Debug)]
pub(super) struct Watch(Instant);

impl Watch {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// How long until the next look.
    pub(super) fn wait(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Those of `commands` that exceed a limit, where it is time to look: numbers, each with its
    /// subreaper and its limits.
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
    // The first is quick and counts what several processes share for each of them; the second is
    // exact.
    let is_over = |memory: fn(i32) -> Option<u64>| own_memory(own(), memory) > limit;
    (is_over(resident) && is_over(|pid| proportional(pid).or_else(|| resident(pid))))
        .then_some(ExceededLimit::Memory)
}

/// Bytes of memory of `processes`, where `memory` is what one has. One that has gone has none.
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

/// Memory of the process that is no file's, swapped out or not.
fn resident(pid: i32) -> Option<u64> {
    sum(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, &["RssAnon", "RssShmem", "VmSwap"])
}

/// The same, of what it shares with others only its part. `None` also where it keeps this from us,
/// as a program may.
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
    fn threads_of_a_commands_own_processes_count() {
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
    fn memory_is_summed_and_what_is_the_parents_is_counted_once() {
        let now = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap());
        let child = |started, size| Process { started, size, ..process(22, 21, 1) };
        let parent = Process { size: 7, ..process(21, 20, 1) };
        // A child in an hour: as young as can be.
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
    fn the_kernels_own_numbers_are_read() {
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
    fn it_is_not_always_looked_at() {
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
