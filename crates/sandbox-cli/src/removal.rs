//! The process that removes what a run left on the engine: dead containers and their network. The
//! run's own process does not wait for it.

use std::env::ArgsOs;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use sandbox::{EngineAddress, HandedOver, Sandbox, SandboxConfig};
use tokio::signal::unix::{SignalKind, signal};

/// The first argument of such a process.
const FLAG: &str = "--removal";
/// The link of the machine's initial process namespace; its number is fixed in the kernel.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Starts a process that removes what a sandbox with this configuration left. It has none of our
/// streams, variables and signals.
#[expect(clippy::disallowed_methods, reason = "it starts this program itself")]
pub(crate) fn start(config: &SandboxConfig, left: HandedOver) -> io::Result<()> {
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg(FLAG).arg(config.engine.socket()).arg(&config.prefix).arg(left.path);
    // While it has the file, the run's objects are not ownerless.
    command.stdin(left.file).stdout(Stdio::null()).stderr(Stdio::null());
    command.env_clear().current_dir("/").process_group(0).spawn().map(drop)
}

/// The work of this process if it was [started](start) for a removal.
pub(crate) fn of_this_process(mut arguments: ArgsOs) -> Option<ExitCode> {
    if arguments.nth(1).as_deref() != Some(OsStr::new(FLAG)) {
        return None;
    }
    let (Some(socket), Some(prefix), Some(path), None) =
        (arguments.next(), arguments.next(), arguments.next(), arguments.next())
    else {
        return Some(ExitCode::FAILURE);
    };
    close_inherited();
    let work = async {
        // Ignored, so that a service manager that ends all processes of a command waits for this one.
        let _ignored = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        let file = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
        let engine = EngineAddress::unix(socket);
        Sandbox::remove_handed_over(&engine, prefix.to_str()?, HandedOver { path: path.into(), file })
            .await
            .ok()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // If it fails, the next start removes the rest.
    let removed = runtime.ok().and_then(|runtime| runtime.block_on(work));
    Some(if removed.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a process can outlive its command: in a container it ends with the first one.
pub(crate) fn is_possible() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace == Path::new(FIRST_NAMESPACE))
}

/// Closes inherited files other than the standard streams: the command's caller may wait for a pipe
/// to close, or for a lock on one of them.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|&descriptor| descriptor > 2) {
        // That of the folder is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}
