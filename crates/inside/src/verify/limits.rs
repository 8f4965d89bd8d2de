//! Resource limits of the container.

use std::fs;
use std::sync::mpsc;
use std::thread;

use sandbox_inside::Order;

use super::child;
use super::observation::Observation;

const KILLED: i32 = 9;
/// Larger than the kernel's accounting delay.
const MARGIN: u64 = 32 << 20;
/// Maximum number of other processes in the container, including the engine's init and this
/// process.
const OTHERS: u32 = 4;

pub(super) fn process_limits(order: &Order) -> Observation {
    let table = match fs::read_to_string("/proc/self/limits") {
        Ok(table) => table,
        Err(error) => return Observation::unknown("/proc/self/limits", error),
    };
    let mut problems = Vec::new();
    for limit in &order.limits {
        let columns = table.lines().find_map(|line| line.strip_prefix(limit.title.as_str()));
        let is: Vec<&str> = columns.unwrap_or_default().split_whitespace().take(2).collect();
        if is != [limit.soft.to_string(), limit.hard.to_string()] {
            problems.push(format!(
                "{}: {} instead of {} {}",
                limit.title,
                is.join(" "),
                limit.soft,
                limit.hard
            ));
        }
    }
    Observation::from_problems(&problems, format!("{} limits", order.limits.len()))
}

/// Threads count like processes, and always end with this process.
pub(super) fn processes_bounded(order: &Order) -> Observation {
    let limit = order.processes.unwrap_or_default();
    let mut waiting: Vec<(mpsc::Sender<()>, thread::JoinHandle<()>)> = Vec::new();
    let mut refused = None;
    for _ in 0..limit.saturating_add(8) {
        let (sender, receiver) = mpsc::channel::<()>();
        let wait = move || {
            let _ = receiver.recv();
        };
        match thread::Builder::new().stack_size(64 << 10).spawn(wait) {
            Ok(handle) => waiting.push((sender, handle)),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let count = waiting.len();
    for (sender, handle) in waiting {
        drop(sender);
        let _ = handle.join();
    }
    match refused {
        Some(error) => Observation {
            held: is_near(count, limit),
            detail: format!("{count} threads, then: {error}; the limit is {limit}"),
        },
        None => Observation::broken(format!("{count} threads, and the limit is {limit}")),
    }
}

/// A refusal long before the limit has another cause: a filter, or a limit on all of a user's
/// processes.
fn is_near(threads: usize, limit: u32) -> bool {
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    threads.saturating_add(OTHERS) >= limit - limit / 4
}

pub(super) fn memory_bounded(order: &Order) -> Observation {
    let limit = order.memory.unwrap_or_default();
    match child::attempt("memory", &[&limit.saturating_add(MARGIN).to_string()]) {
        Ok(ended) if ended.signal == Some(KILLED) => {
            let taken = format!("killed before it had {} MiB", limit.saturating_add(MARGIN) >> 20);
            by_whose_limit(limit_in_force(), limit, &taken)
        }
        Ok(ended) => Observation::broken(format!(
            "took {} bytes, and the limit is {limit}; exit code {:?}, signal {:?}",
            ended.output, ended.code, ended.signal
        )),
        Err(error) => Observation::unknown("memory", error),
    }
}

/// The machine also kills when its own memory is exhausted: this distinguishes a kill by the
/// container's own limit.
fn by_whose_limit(in_force: Option<u64>, limit: u64, taken: &str) -> Observation {
    match in_force {
        Some(in_force) if in_force <= limit => {
            Observation::held(format!("{taken}, by the container's own limit"))
        }
        Some(in_force) => {
            Observation::broken(format!("{taken}, but not by the container's own limit, which is {in_force}"))
        }
        None => Observation::held(format!("{taken}; by whose limit cannot be seen")),
    }
}

/// The container's memory limit, if control groups are visible: version 2, else version 1.
fn limit_in_force() -> Option<u64> {
    let text = fs::read_to_string("/sys/fs/cgroup/memory.max")
        .or_else(|_| fs::read_to_string("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    bytes(&text.ok()?)
}

fn bytes(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_far_from_the_limit_has_another_cause() {
        for (threads, limit, is) in [
            (98, 100, true),
            (71, 100, true),
            (70, 100, false),
            (0, 100, false),
            (0, 4, true),
            (125, 128, true),
            (0, u32::MAX, false),
        ] {
            assert_eq!(is_near(threads, limit), is, "{threads} of {limit}");
        }
    }

    #[test]
    fn kill_is_attributed_to_the_limit_in_force() {
        assert_eq!((bytes("max\n"), bytes("4096\n"), bytes("")), (Some(u64::MAX), Some(4096), None));
        for (in_force, held) in [(Some(4096), true), (Some(4097), false), (bytes("max"), false), (None, true)]
        {
            assert_eq!(by_whose_limit(in_force, 4096, "killed").held, held, "{in_force:?}");
        }
    }
}
