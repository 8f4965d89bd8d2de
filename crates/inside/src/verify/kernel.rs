//! System calls that the kernel permits. Each attempt is refused before it has an effect, or is
//! undone.

use std::fs;

use nix::errno::Errno;
use nix::kmod;
use nix::mount::{MsFlags, mount, umount};
use nix::sys::personality::{self, Persona};
use nix::sys::reboot::set_cad_enabled;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::time::{ClockId, clock_gettime, clock_settime};
use nix::unistd::{chroot, pivot_root};
use socket2::{Domain, Protocol, Socket, Type};

use super::child;
use super::observation::{Observation, kernel};
use super::proc::status;

const REFUSED: &[Errno] = &[Errno::EPERM, Errno::EACCES];
/// For some calls, filters report that the kernel lacks them.
const FILTERED: &[Errno] = &[Errno::EPERM, Errno::EACCES, Errno::ENOSYS];

/// A filter may exist and permit everything: this call needs no privilege, and every filter refuses
/// it.
pub(super) fn seccomp_filter() -> Observation {
    let mode = match status("Seccomp") {
        Ok(mode) => mode,
        Err(error) => return Observation::unknown("the filter", error),
    };
    let before = personality::get().unwrap_or(Persona::empty());
    let attempt = personality::set(before | Persona::ADDR_NO_RANDOMIZE);
    if attempt.is_ok() {
        let _ = personality::set(before);
    }
    Observation::all([
        Observation { held: mode == "2", detail: format!("Seccomp {mode}") },
        Observation::refused("personality(ADDR_NO_RANDOMIZE)", attempt, FILTERED),
    ])
}

pub(super) fn user_namespace_refused() -> Observation {
    match child::attempt("user-namespace", &[]) {
        Ok(ended) => {
            let attempt = match ended.code {
                Some(0) => Ok(()),
                code => Err(Errno::from_raw(code.unwrap_or_default())),
            };
            Observation::refused("unshare(CLONE_NEWUSER)", attempt, FILTERED)
        }
        Err(error) => Observation::unknown("unshare", error),
    }
}

pub(super) fn raw_sockets_refused() -> Observation {
    let open = |name, domain, kind, protocol| {
        Observation::refused(name, kernel(Socket::new(domain, kind, protocol)), REFUSED)
    };
    Observation::all([
        open("SOCK_RAW", Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)),
        open("AF_PACKET", Domain::PACKET, Type::RAW, None),
        open("AF_PACKET/SOCK_DGRAM", Domain::PACKET, Type::DGRAM, None),
    ])
}

/// Families by number, since a kernel need not support them: lack of support is as good as a
/// filter.
pub(super) fn foreign_sockets_refused() -> Observation {
    const NETLINK: i32 = 16;
    const ABSENT: &[Errno] = &[
        Errno::EPERM,
        Errno::EACCES,
        Errno::ENOSYS,
        Errno::EAFNOSUPPORT,
        Errno::EPROTONOSUPPORT,
        Errno::ESOCKTNOSUPPORT,
    ];
    let open = |name, family, kind, protocol: i32| {
        let socket = Socket::new(Domain::from(family), kind, Some(Protocol::from(protocol)));
        Observation::refused(name, kernel(socket), ABSENT)
    };
    Observation::all([
        open("AF_VSOCK", 40, Type::STREAM, 0),
        open("AF_VSOCK/SOCK_SEQPACKET", 40, Type::SEQPACKET, 0),
        open("AF_ALG", 38, Type::SEQPACKET, 0),
        open("AF_XDP", 44, Type::RAW, 0),
        open("AF_TIPC", 30, Type::STREAM, 0),
        open("NETLINK_NETFILTER", NETLINK, Type::RAW, 12),
        open("NETLINK_XFRM", NETLINK, Type::RAW, 6),
    ])
}

pub(super) fn mount_refused() -> Observation {
    // Every container has this folder, and no later check uses it.
    let target = "/proc/fs";
    let none = None::<&str>;
    let attempt = mount(Some("tmpfs"), target, Some("tmpfs"), MsFlags::empty(), none);
    // If mounting is permitted, so is unmounting: undo exactly this mount.
    let undone = umount(if attempt.is_ok() { target } else { "/proc/sys" });
    let writable = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
    let again = mount(none, "/proc/sys", none, writable, none);
    if again.is_ok() {
        let _ = mount(none, "/proc/sys", none, writable | MsFlags::MS_RDONLY, none);
    }
    Observation::all([
        Observation::refused("mount", attempt, FILTERED),
        Observation::refused("umount", undone, FILTERED),
        Observation::refused("remount of /proc/sys", again, FILTERED),
    ])
}

/// If permitted, the error is a missing folder.
pub(super) fn pivot_root_refused() -> Observation {
    Observation::refused("pivot_root", pivot_root("/sandbox-verify-none", "/sandbox-verify-none"), FILTERED)
}

/// Changes the root to itself.
pub(super) fn chroot_refused() -> Observation {
    Observation::refused("chroot", chroot("/"), FILTERED)
}

/// An empty module: if permitted, the error is its format.
pub(super) fn modules_refused() -> Observation {
    Observation::refused("init_module", kmod::init_module(&[], c""), FILTERED)
}

/// Enables Ctrl-Alt-Del, which is the default on every machine.
pub(super) fn reboot_refused() -> Observation {
    Observation::refused("reboot(CAD_ON)", set_cad_enabled(true), FILTERED)
}

/// Sets the clock to its current time.
pub(super) fn clock_refused() -> Observation {
    let clock = ClockId::CLOCK_REALTIME;
    match clock_gettime(clock) {
        Ok(now) => Observation::refused("clock_settime", clock_settime(clock, now), FILTERED),
        Err(error) => Observation::unknown("the clock", error),
    }
}

pub(super) fn device_nodes_refused() -> Observation {
    let folder = ["/tmp", "/dev/shm", "/"]
        .into_iter()
        .find(|folder| {
            let path = format!("{folder}/sandbox-verify-file");
            let made = fs::write(&path, "").is_ok();
            made && fs::remove_file(&path).is_ok()
        })
        .unwrap_or("/tmp");
    let make = |name: &str, kind, major, minor| {
        let path = format!("{folder}/sandbox-verify-node");
        let attempt = mknod(path.as_str(), kind, Mode::S_IRUSR, makedev(major, minor));
        let _ = fs::remove_file(&path);
        Observation::refused(name, attempt, REFUSED)
    };
    Observation::all([
        make("mknod of /dev/mem", SFlag::S_IFCHR, 1, 1),
        make("mknod of a disk", SFlag::S_IFBLK, 8, 0),
    ])
}
