//! Users, groups and privileges of the processes.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid};
use sandbox_inside::Order;

use super::child::{self, Ended};
use super::observation::Observation;
use super::proc::status;

/// A user who is neither root nor in any image.
const STRANGER: u32 = 54_321;
const SETUID: u32 = 0o4000;

pub(super) fn user_is_sandbox(order: &Order) -> Observation {
    let asked = order.user.clone().unwrap_or_default();
    let (user, group) = asked.split_once(':').unwrap_or((&asked, ""));
    let user = number_of(user, "/etc/passwd");
    let group = number_of(group, "/etc/group");
    let (uid, gid) = (Uid::current().as_raw(), Gid::current().as_raw());
    let others = match status("Groups") {
        Ok(groups) => groups,
        Err(error) => return Observation::unknown("the groups", error),
    };
    let strange: Vec<&str> = others.split_whitespace().filter(|other| *other != gid.to_string()).collect();
    let is_asked = user == Some(uid) && group.is_none_or(|group| group == gid);
    let detail = format!("user {uid}, group {gid}, more groups: {others:?}; asked for {asked}");
    Observation { held: is_asked && (strange.is_empty() || group.is_none()), detail }
}

/// A number is used directly; a name is looked up in the image's own file, like the engine does.
fn number_of(account: &str, file: &str) -> Option<u32> {
    account.parse().ok().or_else(|| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.split(':').next() == Some(account))?;
        line.split(':').nth(2)?.parse().ok()
    })
}

pub(super) fn user_not_root() -> Observation {
    let ids = |name| status(name).map(|ids| ids.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    match (ids("Uid"), ids("Gid")) {
        (Ok(users), Ok(groups)) => {
            let is_root = users.iter().chain(&groups).any(|id| id == "0");
            Observation {
                held: !is_root && users.len() == 4,
                detail: format!("users {}, groups {}", users.join(" "), groups.join(" ")),
            }
        }
        (Err(error), _) | (_, Err(error)) => Observation::unknown("the ids", error),
    }
}

pub(super) fn capabilities(order: &Order) -> Observation {
    let mut problems = Vec::new();
    let mut shown = Vec::new();
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let bits =
            status(name).and_then(|bits| u64::from_str_radix(&bits, 16).map_err(|error| error.to_string()));
        match bits {
            Ok(bits) if bits & !order.capabilities == 0 => shown.push(format!("{name} {bits:x}")),
            Ok(bits) => problems.push(format!("{name} has {:x} too many", bits & !order.capabilities)),
            Err(error) => problems.push(error),
        }
    }
    Observation::from_problems(&problems, shown.join(", "))
}

pub(super) fn no_new_privileges() -> Observation {
    match status("NoNewPrivs") {
        Ok(value) => Observation { held: value == "1", detail: format!("NoNewPrivs {value}") },
        Err(error) => Observation::unknown("it", error),
    }
}

/// Programs that switch to root, with arguments for doing so silently.
const RAISERS: [(&str, &[&str]); 5] = [
    ("sudo", &["-n", "id", "-u"]),
    ("su", &["root", "-c", "id -u"]),
    ("doas", &["-n", "id", "-u"]),
    ("pkexec", &["id", "-u"]),
    ("runuser", &["-u", "root", "id", "-u"]),
];

pub(super) fn sudo_blocked() -> Observation {
    let mut parts = Vec::new();
    for (name, arguments) in RAISERS {
        let Some(path) = find(name) else { continue };
        parts.push(match child::program(&path, arguments) {
            Ok(ended) if ended.output.lines().any(|line| line.trim() == "0") => {
                Observation::broken(format!("{name} made us root"))
            }
            Ok(ended) => Observation::held(format!("{name}: exit code {:?}", ended.code)),
            Err(error) => Observation::held(format!("{name}: {error}")),
        });
    }
    if parts.is_empty() {
        return Observation::held("the image has none of them");
    }
    Observation::all(parts)
}

/// Finds a program on the search path of shells.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Root creates a set-user-id program and runs it as a stranger. If it cannot create one, or cannot
/// change its user, the check relies on the kernel's report, and counts such programs in the image.
pub(super) fn setuid_blocked() -> Observation {
    let ran = if Uid::effective().is_root() {
        run_as_stranger(Path::new("/tmp"))
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    };
    match ran {
        Ok(ended) if ended.output == STRANGER.to_string() => {
            Observation::held(format!("user {STRANGER} stayed user {STRANGER}"))
        }
        Ok(ended) => Observation::broken(format!("user {STRANGER} became user {}", ended.output)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let there = setuid_programs(Path::new("/"), 4).len();
            let seen = no_new_privileges();
            Observation {
                held: seen.held,
                detail: format!("{}; {there} such programs in the image", seen.detail),
            }
        }
        Err(error) => Observation::unknown("a set-user-id program", error),
    }
}

fn run_as_stranger(folder: &Path) -> io::Result<Ended> {
    let path = folder.join("sandbox-verify-setuid");
    let ran = fs::create_dir_all(folder)
        .and_then(|()| fs::copy("/proc/self/exe", &path))
        .and_then(|_| fs::set_permissions(&path, fs::Permissions::from_mode(SETUID | 0o755)))
        .and_then(|()| child::attempt_as(&path, STRANGER, "identity"));
    let _ = fs::remove_file(&path);
    ran
}

fn setuid_programs(folder: &Path, depth: u32) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(metadata) = entry.metadata() else { continue };
        let is_kernels = ["/proc", "/sys", "/dev"].iter().any(|own| path == Path::new(own));
        if metadata.is_dir() && depth > 0 && !is_kernels {
            found.extend(setuid_programs(&path, depth - 1));
        } else if metadata.is_file() && metadata.permissions().mode() & SETUID != 0 {
            found.push(path);
        }
    }
    found
}
