//! How much the container can use.

use std::fs;
use std::sync::mpsc;
use std::thread;

use sandbox_verify_probe::Order;

use crate::check::Check;
use crate::child;
use crate::seen::Seen;

pub(super) const CHECKS: &[Check] = &[
    ("process_limits", process_limits),
    ("processes_bounded", processes_bounded),
    ("memory_bounded", memory_bounded),
];

const KILLED: i32 = 9;
/// More than what the kernel may count late.
const MARGIN: u64 = 32 << 20;

fn process_limits(order: &Order) -> Seen {
    let table = match fs::read_to_string("/proc/self/limits") {
        Ok(table) => table,
        Err(error) => return Seen::unknown("/proc/self/limits", error),
    };
    let mut faults = Vec::new();
    for limit in &order.limits {
        let columns = table
            .lines()
            .find_map(|line| line.strip_prefix(limit.title.as_str()));
        let is: Vec<&str> = columns.unwrap_or_default().split_whitespace().take(2).collect();
        if is != [limit.soft.to_string(), limit.hard.to_string()] {
            faults.push(format!(
                "{}: {} instead of {} {}",
                limit.title,
                is.join(" "),
                limit.soft,
                limit.hard
            ));
        }
    }
    Seen::without_faults(&faults, format!("{} limits", order.limits.len()))
}

/// Threads count as processes do, and end with the probe whatever happens.
fn processes_bounded(order: &Order) -> Seen {
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
        Some(error) => Seen::held(format!("{count} threads, then: {error}; the limit is {limit}")),
        None => Seen::broken(format!("{count} threads, and the limit is {limit}")),
    }
}

fn memory_bounded(order: &Order) -> Seen {
    let limit = order.memory.unwrap_or_default();
    match child::attempt("memory", &[&limit.saturating_add(MARGIN).to_string()]) {
        Ok(ended) if ended.signal == Some(KILLED) => Seen::held(format!(
            "killed before it had {} MiB",
            limit.saturating_add(MARGIN) >> 20
        )),
        Ok(ended) => Seen::broken(format!(
            "took {} bytes, and the limit is {limit}; exit code {:?}, signal {:?}",
            ended.output, ended.code, ended.signal
        )),
        Err(error) => Seen::unknown("memory", error),
    }
}
