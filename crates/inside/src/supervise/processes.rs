//! The processes of the container, and killing those that were reparented to PID 1.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, waitpid};

/// Time limit. Processes that still exist then end with the whole container.
const DEADLINE: Duration = Duration::from_secs(3);
/// Rounds of killing processes individually, before all are killed at once if possible.
const ROUNDS: u32 = 8;

/// A process, as listed by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) threads: u64,
    /// Start time, since boot.
    pub(super) started: Duration,
    /// Size of its address space in bytes.
    pub(super) size: u64,
}

/// Kills all our descendants, except `subreapers` and their descendants, until none is left.
///
/// # Errors
///
/// If some cannot be killed.
pub(super) fn kill_strays(subreapers: &BTreeSet<i32>) -> io::Result<()> {
    let begun = Instant::now();
    for round in 0.. {
        let strays = below(&list()?, getpid().as_raw_pid(), subreapers);
        if strays.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > DEADLINE {
            break;
        }
        if round >= ROUNDS && subreapers.is_empty() {
            // For the kernel, "process group 1" means every process except the caller and PID 1, in
            // one atomic step that no fork escapes.
            let _ = kill_process_group(Pid::INIT, Signal::KILL);
        } else {
            for pid in strays.iter().copied().filter_map(Pid::from_raw) {
                // It may have exited meanwhile; a process that cannot be killed is found again.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        for &pid in &strays {
            // Reap our own dead children. Never a subreaper: its pid stays in use until we reap it
            // elsewhere.
            let _ = waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
        }
        if round > 0 {
            // tidy: sleep: processes need a moment to die, and the kernel does not notify us about
            // children of others
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    Err(io::Error::other("failed to kill processes of a command"))
}

/// The descendants of `root`, without `subreapers` and their descendants.
pub(super) fn below(processes: &[Process], root: i32, subreapers: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut found = BTreeSet::from([root]);
    // A child may precede its parent in the list.
    loop {
        let before = found.len();
        found.extend(
            processes
                .iter()
                .filter(|process| found.contains(&process.parent) && !subreapers.contains(&process.pid))
                .map(|process| process.pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == before {
            break;
        }
    }
    found.remove(&root);
    found
}

/// All processes.
pub(super) fn list() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Skip those that exited meanwhile.
        if let Ok(stat) = fs::read(format!("/proc/{pid}/stat"))
            && let Some(process) = process(pid, &stat)
        {
            processes.push(process);
        }
    }
    Ok(processes)
}

/// Parses a line of `/proc/PID/stat`. The process chooses the name in it, which may contain
/// parentheses and line breaks.
fn process(pid: i32, stat: &[u8]) -> Option<Process> {
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The third field of proc(5) is the first after the name.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: fields.get(4 - 3)?.parse().ok()?,
        threads: number(20)?,
        // Always in hundredths of a second.
        started: Duration::from_millis(number(22)?.saturating_mul(10)),
        size: number(23)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strays_are_the_processes_outside_of_all_subreapers() {
        let process = |pid, parent| Process { pid, parent, threads: 1, started: Duration::ZERO, size: 0 };
        let processes = [
            process(31, 30),
            process(1, 0),
            process(9, 0),
            process(20, 1),
            process(21, 20),
            process(30, 1),
            process(32, 31),
        ];
        let strays = |subreapers: &[i32]| below(&processes, 1, &subreapers.iter().copied().collect());
        assert_eq!(strays(&[20]), BTreeSet::from([30, 31, 32]));
        assert_eq!(strays(&[20, 30]), BTreeSet::new());
        assert_eq!(strays(&[]), BTreeSet::from([20, 21, 30, 31, 32]));
    }

    #[test]
    fn process_name_does_not_hide_the_parent() {
        let rest = "12 12 0 -1 4 1 2 3 4 5 6 7 8 20 0 3 0 150 4096 9";
        for (stat, expected) in [
            ("12 (bash) S 7", Some(7)),
            ("12 (a) S 1 (b) R 9", Some(9)),
            ("12 (x\n) Z 3) S 8", Some(8)),
            ("12 (bash", None),
            ("", None),
        ] {
            let process = process(12, format!("{stat} {rest}").as_bytes());
            let started = Duration::from_millis(1500);
            let expected =
                expected.map(|parent| Process { pid: 12, parent, threads: 3, started, size: 4096 });
            assert_eq!(process, expected, "{stat:?}");
        }
        let own = process(1, &fs::read("/proc/self/stat").unwrap()).unwrap();
        assert_eq!(Some(own.parent), rustix::process::getppid().map(rustix::process::Pid::as_raw_pid));
        assert!(own.size > 1 << 20 && own.threads > 0 && !own.started.is_zero(), "{own:?}");
    }
}
