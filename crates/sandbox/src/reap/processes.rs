//! Processes that a killed engine service leaves of a container that it was creating: the monitor,
//! and the runtime in the middle of its work. The engine does not know them, so they outlive the
//! container.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills the remaining processes of removed containers, as far as they are visible here.
/// `containers` are the ids, which no other command line contains.
pub(super) fn kill_leftovers(containers: &BTreeSet<String>) {
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if !is_left(pid, containers) {
            continue;
        }
        let opened = Pid::from_raw(pid).and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
        // Checked again: before it was opened, its number may have been reused.
        let Some(process) = opened.filter(|_| is_left(pid, containers)) else {
            continue;
        };
        match pidfd_send_signal(&process, Signal::KILL) {
            Ok(()) => tracing::info!(pid, "killed a process that a killed engine left of a container"),
            Err(error) => {
                tracing::warn!(pid, %error, "failed to kill a process that a killed engine left of a container");
            }
        }
    }
}

fn is_left(pid: i32, containers: &BTreeSet<String>) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_of(&line, containers))
}

/// Whether this is the command line of a monitor (`conmon … -c ID …`) or of a runtime (`crun …
/// create … ID`) of one of `containers`.
fn is_of(line: &[u8], containers: &BTreeSet<String>) -> bool {
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
    let is_id = |word: &[u8]| std::str::from_utf8(word).is_ok_and(|word| containers.contains(word));
    let is_monitor = words.first().is_some_and(|program| program.ends_with(b"conmon"));
    let monitors = words.array_windows().any(|[option, value]| *option == b"-c" && is_id(value));
    let makes = words.contains(&b"create".as_slice()) && words.last().is_some_and(|last| is_id(last));
    is_monitor && monitors || makes
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[test]
    fn monitors_and_runtimes_are_recognized_by_the_id() {
        let id = "0f".repeat(32);
        let containers = BTreeSet::from([id.clone()]);
        for (line, expected) in [
            (format!("/usr/bin/conmon\0--api-version\01\0-c\0{id}\0-u\0{id}\0"), true),
            (format!("/usr/bin/crun\0--log-format=json\0create\0--pid-file\0/p\0{id}\0"), true),
            (format!("runc\0create\0{id}"), true),
            (format!("/usr/bin/conmon\0-c\0{}\0", "0e".repeat(32)), false),
            (format!("/usr/bin/podman\0container\0cleanup\0{id}\0"), false),
            (format!("crun\0create\0{id}\0x\0"), false),
            (format!("sh\0-c\0{id}\0"), false),
            (String::new(), false),
        ] {
            assert_eq!(is_of(line.as_bytes(), &containers), expected, "{line:?}");
        }
    }

    /// A process that waits until it is killed, or its stdin ends.
    fn process(words: [&str; 2]) -> Child {
        #[expect(clippy::disallowed_methods, reason = "a process to end")]
        let mut command = Command::new("sh");
        command.args(["-c", "read line; :", "crun"]).args(words).stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn leftover_processes_are_killed_and_no_others() {
        use std::os::unix::process::ExitStatusExt as _;
        let id = "0d".repeat(32);
        let (mut left, mut other) = (process(["create", &id]), process([&id, "create"]));
        kill_leftovers(&BTreeSet::from([id]));
        drop((left.stdin.take(), other.stdin.take()));
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert_eq!(other.wait().unwrap().signal(), None, "the control");
    }
}
