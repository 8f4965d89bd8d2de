//! Writable files of the container.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::statvfs::statvfs;
use sandbox_inside::{Order, Scratch};

use super::child;
use super::observation::{Observation, errno, kernel};
use super::proc::{Mount, mounts};

const PIECE: usize = 1 << 20;

pub(super) fn root_readonly() -> Observation {
    read_only("/")
}

pub(super) fn etc_readonly() -> Observation {
    read_only("/etc")
}

pub(super) fn usr_readonly() -> Observation {
    read_only("/usr")
}

/// An unprivileged user may not write there anyway: only the error of a read-only file system
/// proves that it is one.
fn read_only(folder: &str) -> Observation {
    let path = Path::new(folder).join("sandbox-verify-write");
    let attempt = if Path::new(folder).is_dir() {
        kernel(OpenOptions::new().write(true).create_new(true).open(&path).map(drop))
    } else {
        kernel(fs::create_dir(folder))
    };
    let _ = fs::remove_file(&path);
    Observation::refused(&format!("writing to {folder}"), attempt, &[Errno::EROFS])
}

/// File systems of the kernel and the engine in every container, which belong to the container.
const ENGINES: [&str; 10] = [
    "/proc",
    "/dev",
    "/dev/pts",
    "/dev/mqueue",
    "/dev/shm",
    "/sys/fs/cgroup",
    "/etc/resolv.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/run/.containerenv",
];

pub(super) fn mounts_bounded(order: &Order) -> Observation {
    let mounts = match mounts() {
        Ok(mounts) => mounts,
        Err(error) => return Observation::unknown("the mounts", error),
    };
    let expected = |mount: &Mount| {
        let target = mount.target.as_str();
        ENGINES.contains(&target)
            || target == "/"
            || order.writable.contains(target)
            || order.scratch.iter().any(|scratch| scratch.path == target)
            || order.devices.contains(target)
            // Rootless engines mount the host's devices; another check limits them.
            || is_device(target)
    };
    let problems: Vec<String> = mounts
        .iter()
        .filter(|mount| mount.is_writable() && !expected(mount))
        .map(|mount| format!("{} ({}) is writable", mount.target, mount.file_system))
        .collect();
    Observation::from_problems(&problems, format!("{} mounts", mounts.len()))
}

fn is_device(path: &str) -> bool {
    let kind = fs::symlink_metadata(path).map(|facts| facts.file_type());
    kind.is_ok_and(|kind| kind.is_char_device() || kind.is_block_device())
}

pub(super) fn memory_bounded_files(order: &Order) -> Observation {
    let mounts = match mounts() {
        Ok(mounts) => mounts,
        Err(error) => return Observation::unknown("the mounts", error),
    };
    let in_memory: Vec<&Mount> =
        mounts.iter().filter(|mount| mount.is_writable() && mount.is_in_memory()).collect();
    let unbounded = in_memory
        .iter()
        .filter(|mount| !mount.options.iter().any(|option| option.starts_with("size=")))
        .map(|mount| Observation::broken(format!("{} has no size", mount.target)));
    let too_large = order.scratch.iter().map(bounded);
    let shared = (order.shm_size > 0)
        .then(|| bounded(&Scratch { path: "/dev/shm".to_owned(), size: order.shm_size, exec: false }));
    let seen = Observation::all(unbounded.chain(too_large).chain(shared));
    if seen.detail.is_empty() {
        return Observation::held("there is none");
    }
    seen
}

/// The kernel counts whole pages, and a folder uses one.
fn bounded(scratch: &Scratch) -> Observation {
    let path = scratch.path.as_str();
    let total = match statvfs(path) {
        Ok(facts) => facts.blocks().saturating_mul(facts.fragment_size()),
        Err(error) => return Observation::unknown(path, error),
    };
    if total > scratch.size {
        return Observation::broken(format!("{path} has {total} bytes instead of {}", scratch.size));
    }
    match fill(&Path::new(path).join("sandbox-verify-fill"), scratch.size) {
        Ok(written) => Observation::broken(format!("{path} took {written} bytes, and has {}", scratch.size)),
        Err(error) if matches!(errno(&error), Errno::ENOSPC | Errno::EDQUOT) => {
            Observation::held(format!("{path} is full at {} MiB", scratch.size >> 20))
        }
        Err(error) => Observation::unknown(path, error),
    }
}

/// Writes until the file system is full, or slightly beyond its expected size.
fn fill(path: &Path, size: u64) -> io::Result<u64> {
    let piece = vec![b'x'; PIECE];
    let filled = File::create(path).and_then(|mut file| {
        let mut written = 0;
        while written <= size {
            file.write_all(&piece)?;
            written += PIECE as u64;
        }
        Ok(written)
    });
    let _ = fs::remove_file(path);
    filled
}

pub(super) fn scratch_noexec(order: &Order) -> Observation {
    let without = order.scratch.iter().filter(|scratch| !scratch.exec);
    Observation::all(without.map(|scratch| {
        let path = Path::new(&scratch.path).join("sandbox-verify-program");
        if let Err(error) = fs::copy("/proc/self/exe", &path) {
            let _ = fs::remove_file(&path);
            return Observation::unknown(&scratch.path, error);
        }
        let ran = kernel(child::program(&path, &["exit", "0"]));
        let _ = fs::remove_file(&path);
        Observation::refused(&scratch.path, ran, &[Errno::EACCES, Errno::EPERM])
    }))
}

pub(super) fn sandbox_files_kept(order: &Order) -> Observation {
    let mounts = match mounts() {
        Ok(mounts) => mounts,
        Err(error) => return Observation::unknown("the mounts", error),
    };
    Observation::all(order.owned.iter().map(|owned| kept(Path::new(owned), &mounts)))
}

fn kept(path: &Path, mounts: &[Mount]) -> Observation {
    let is_read_only = |mount: &Mount| Path::new(&mount.target) == path && !mount.is_writable();
    let attempt = if path.is_dir() {
        let below = path.join("sandbox-verify");
        let attempt = kernel(fs::write(&below, ""));
        let _ = fs::remove_file(&below);
        attempt
    } else {
        kernel(OpenOptions::new().append(true).open(path).map(drop))
    };
    // A program that runs is busy before it is read-only.
    let attempt = match attempt {
        Err(Errno::ETXTBSY) if mounts.iter().any(is_read_only) => Err(Errno::EROFS),
        other => other,
    };
    let refused = [Errno::EROFS, Errno::EACCES, Errno::EPERM];
    Observation::refused(&path.display().to_string(), attempt, &refused)
}

/// A marker of every text form of private keys. Assembled at run time, so that this program does
/// not contain it.
pub(super) fn private_keys_absent() -> Observation {
    let mark = ["PRIVATE", "KEY-----"].join(" ");
    let mounts = match mounts() {
        Ok(mounts) => mounts,
        Err(error) => return Observation::unknown("the mounts", error),
    };
    let ours = mounts
        .iter()
        .map(|mount| mount.target.as_str())
        .filter(|target| target.starts_with("/run/sandbox") || target.starts_with("/etc/ssl"));
    let mut looked_at = 0;
    let mut problems = Vec::new();
    for target in ours {
        holds(Path::new(target), mark.as_bytes(), 3, &mut looked_at, &mut problems);
    }
    Observation::from_problems(&problems, format!("{looked_at} files"))
}

fn holds(path: &Path, mark: &[u8], depth: u32, looked_at: &mut u32, problems: &mut Vec<String>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries.filter(|_| depth > 0) {
            holds(&entry.path(), mark, depth - 1, looked_at, problems);
        }
        return;
    }
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8 << 20).read_to_end(&mut text));
    *looked_at += 1;
    if read.is_err() || text.windows(mark.len()).any(|window| window == mark) {
        problems.push(format!("{} holds a private key, or cannot be read", path.display()));
    }
}
