//! What an engine leaves behind: containers, their monitors, name servers.
//!
//! Every such process lives in a mount namespace other than ours that has mounts from the engine's state folder, or in
//! the engine's network namespace. Both are true of nothing else on the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::process::{self, command};

/// Ends every process that an engine with this state folder or network namespace has left.
pub(super) fn end(state: &Path, network: Option<&Path>) {
    let found = find(state, network);
    if !found.is_empty() {
        let mut kill = command("kill", ["-KILL"]);
        kill.args(found.iter().map(u32::to_string));
        drop(process::run_quietly(&mut kill));
    }
}

fn find(state: &Path, network: Option<&Path>) -> Vec<u32> {
    let own = namespace("self", "mnt");
    let wanted_network = network
        .and_then(|path| fs::metadata(path).ok())
        .map(|data| data.ino());
    let state = format!("{}/", state.display());
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
            in_network || mounts_from(&name, &state)
        })
        .collect()
}

fn namespace(process: &str, kind: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/{kind}"))
        .ok()
        .map(|data| data.ino())
}

fn mounts_from(process: &str, state: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/mountinfo")).is_ok_and(|text| text.contains(state))
}
