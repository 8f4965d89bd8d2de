//! What an engine leaves behind: containers, their monitors, name servers.
//!
//! Every such process lives in a mount namespace other than ours that has mounts from the engine's
//! state folder, or of a file system in a file there, or it lives in the engine's network
//! namespace. That is true of nothing else on the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{self, command};

/// Ends every process that an engine with this state folder or network namespace has left.
pub(super) fn end(state: &Path, network: Option<&Path>) {
    let found = find(state, network);
    if !found.is_empty() {
        let mut kill = command("kill", ["-KILL"]);
        kill.args(found.iter().map(u32::to_string));
        drop(process::run_quietly(&mut kill));
    }
    await_detached(state);
}

/// The kernel unmounts what a namespace had, and detaches its loop devices, some time after its
/// last process has ended. A file system that is still there must not be mounted a second time.
fn await_detached(state: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let disk = state.join("disk.img").display().to_string();
    // The name of a file in a namespace that is going away begins at the mount that it was in.
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

/// The devices that stand for files below `state`, as `mountinfo` writes them between its blanks.
fn loop_devices(state: &str) -> Vec<String> {
    backing_files()
        .into_iter()
        .filter(|(_, file)| file.starts_with(state))
        .map(|(device, _)| format!(" /dev/{device} "))
        .collect()
}

/// The names of all loop devices that stand for a file, and the file.
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
