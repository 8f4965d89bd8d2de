//! Remaining processes of an ended engine: containers, their monitors, name servers.
//!
//! Every such process is in a mount namespace other than ours, and either has mounts from the
//! engine's state folder, or of a file system in a file there, or is in the engine's network
//! namespace. No other process on the machine meets these conditions.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{self, command};

/// Kills the remaining processes of the engine with this state folder or network namespace.
pub(super) fn end(state: &Path, network: Option<&Path>) {
    let found = find(state, network);
    if !found.is_empty() {
        let mut kill = command("kill", ["-KILL"]);
        kill.args(found.iter().map(u32::to_string));
        drop(process::run_quietly(&mut kill));
    }
    await_detached(state);
}

/// Waits for the kernel, which unmounts the file systems of a namespace and detaches its loop
/// devices some time after its last process has ended. A file system that is still mounted must not
/// be mounted a second time.
fn await_detached(state: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let disk = state.join("disk.img").display().to_string();
    // In a namespace that is being removed, the path of a file starts at its mount.
    let is_attached = || backing_files().iter().any(|(_, file)| disk.ends_with(file.as_str()));
    while Instant::now() < deadline && is_attached() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn find(state: &Path, network: Option<&Path>) -> Vec<u32> {
    let own = namespace("self", "mnt");
    let wanted_network = network.and_then(|path| fs::metadata(path).ok()).map(|data| data.ino());
    let state = format!("{}/", state.display());
    let mut sources = loop_devices(&state);
    sources.push(state);
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let name = pid.to_string();
            let mounts = namespace(&name, "mnt");
            if mounts.is_none() || mounts == own {
                return false;
            }
            let in_network = wanted_network.is_some() && namespace(&name, "net") == wanted_network;
            in_network || mounts_from(&name, &sources)
        })
        .collect()
}

fn namespace(process: &str, kind: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/{kind}")).ok().map(|data| data.ino())
}

fn mounts_from(process: &str, sources: &[String]) -> bool {
    fs::read_to_string(format!("/proc/{process}/mountinfo"))
        .is_ok_and(|text| sources.iter().any(|source| text.contains(source)))
}

/// The loop devices of files below `state`, as `mountinfo` writes them, with spaces around them.
fn loop_devices(state: &str) -> Vec<String> {
    backing_files()
        .into_iter()
        .filter(|(_, file)| file.starts_with(state))
        .map(|(device, _)| format!(" /dev/{device} "))
        .collect()
}

/// The names of all loop devices that have a backing file, and the file.
fn backing_files() -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), file.trim_end().to_owned()))
        })
        .collect()
}
