//! A crash that cannot be caught, also of a container's first process, which ignores all signals
//! from outside except SIGKILL.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Instant;

use e2e_tests::DEADLINE;
use rustix::process::{Pid, Signal, kill_process};

/// The instruction that the architecture guarantees to be undefined.
#[cfg(target_arch = "x86_64")]
const UNDEFINED: &[u8] = &[0x0f, 0x0b];
#[cfg(target_arch = "aarch64")]
const UNDEFINED: &[u8] = &[0; 4];

/// Writes an undefined instruction at the resume address of each waiting thread of `process`, and
/// wakes the threads: the kernel ends the process with SIGILL.
pub(super) fn crash(process: u32) {
    let memory = OpenOptions::new().write(true).open(format!("/proc/{process}/mem")).expect("root");
    for address in resume_addresses(process) {
        memory.write_all_at(UNDEFINED, address).expect("the program's code");
    }
    let process = Pid::from_raw(i32::try_from(process).expect("a number")).expect("a process");
    // A wait for events returns when the process is stopped and continued.
    kill_process(process, Signal::STOP).expect("root");
    kill_process(process, Signal::CONT).expect("root");
}

/// The resume addresses of its threads, once none of them runs.
fn resume_addresses(process: u32) -> Vec<u64> {
    let begun = Instant::now();
    loop {
        let addresses: Option<Vec<u64>> =
            threads(process).iter().map(|thread| resume_address(thread)).collect();
        match addresses {
            Some(addresses) if !addresses.is_empty() => return addresses,
            _ => assert!(begun.elapsed() < DEADLINE, "{process} does not become idle"),
        }
        std::thread::yield_now();
    }
}

fn threads(process: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    entries.flatten().map(|entry| entry.path()).collect()
}

/// `syscall` ends with the stack pointer and the address of the next instruction, or is `running`.
fn resume_address(thread: &std::path::Path) -> Option<u64> {
    let text = fs::read_to_string(thread.join("syscall")).ok()?;
    let address = text.split_whitespace().nth(8)?.strip_prefix("0x")?;
    u64::from_str_radix(address, 16).ok()
}
