//! Restricts a container's packets to its proxy in the kernel.
//!
//! A network without a gateway is not enough: a socket that is bound to an interface treats any
//! address as a neighbour's, and the host answers for all its addresses on every bridge. So the
//! container's network gets an egress packet filter before its process starts. It is set up from
//! the host's side: nothing in the container needs a privilege for it, so nothing there can remove
//! it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sandbox_packet_filter::{Rule, apply};
use tokio::sync::oneshot;

use super::error::ContainerError;
use super::kernel::Process;
use super::plan::ContainerPlan;

/// Why the kernel does not restrict a container to its proxy.
#[derive(Debug, thiserror::Error)]
enum FilterError {
    /// The namespace cannot be found, or is not the container's own.
    #[error("its network namespace is unusable: {0}")]
    Namespace(io::Error),
    /// The namespace cannot be entered.
    #[error("failed to enter its network namespace: {0}; run the sandbox as the user of its engine")]
    Entry(io::Error),
    /// The thread that enters it could not be created.
    #[error("failed to create a thread for it: {0}")]
    Thread(io::Error),
    /// The kernel refused the rules.
    #[error("the kernel refused the filter; it needs nf_tables (`modprobe nf_tables`): {0}")]
    Refused(io::Error),
}

/// Filters the outgoing packets of `process`, which is set up and does not run yet, if `plan`
/// requires it.
pub(super) async fn confine(process: Process<'_>, plan: &ContainerPlan) -> Result<(), ContainerError> {
    let Some(rules) = plan.network.filter() else { return Ok(()) };
    let filtered = filter(process, rules).await;
    filtered.map_err(|error| ContainerError::Unfiltered {
        container: plan.name.clone(),
        problem: error.to_string(),
    })
}

/// From now on only packets that `rules` permit leave the network of `process`, which is set up and
/// does not run yet.
///
/// Does nothing for a rootless engine with this program as its user: such a network can be entered
/// only by a process that gives up its privileges outside of it. Its host is the engine's own
/// network, where no services of the user listen.
async fn filter(process: Process<'_>, rules: Vec<Rule>) -> Result<(), FilterError> {
    let proc = Path::new("/proc");
    let namespace = namespace(proc, process).map_err(FilterError::Namespace)?;
    let (sender, receiver) = oneshot::channel();
    // A thread of its own, because it stays in the container's network.
    let spawned = std::thread::Builder::new().name("packet filter".to_owned()).spawn(move || {
        let _ = sender.send(enter(&namespace).and_then(|()| apply(&rules).map_err(FilterError::Refused)));
    });
    spawned.map_err(FilterError::Thread)?;
    match receiver.await {
        Ok(Err(FilterError::Entry(error)))
            if error.kind() == io::ErrorKind::PermissionDenied && is_of_other_users(proc, process) =>
        {
            tracing::debug!(container = process.id, "a rootless engine: no packet filter");
            Ok(())
        }
        Ok(filtered) => filtered,
        Err(_) => Err(FilterError::Thread(io::Error::other("it ended"))),
    }
}

/// The network namespace of `process`, which must be the container's own.
fn namespace(proc: &Path, process: Process<'_>) -> io::Result<File> {
    let open = |process: &str| File::open(proc.join(process).join("ns/net"));
    let identity = |namespace: File| namespace.metadata().map(|found| (found.dev(), found.ino()));
    let namespace = open(&process.pid.to_string())?;
    // Opened before the check, so that the checked process cannot be another one.
    if !process.is_of_container(proc) {
        return Err(io::Error::other("it is not the container's"));
    }
    let own = identity(namespace.try_clone()?)?;
    // This program's, and the engine's, as far as visible.
    let engines = open(&process.monitor.to_string()).and_then(identity);
    if identity(open("self")?)? == own || engines.is_ok_and(|engines| engines == own) {
        return Err(io::Error::other("it is the host's"));
    }
    Ok(namespace)
}

fn enter(namespace: &File) -> Result<(), FilterError> {
    let entered = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
    entered.map_err(|error| FilterError::Entry(error.into()))
}

/// Whether the engine has a user namespace of its own, as a rootless one has.
fn is_of_other_users(proc: &Path, process: Process<'_>) -> bool {
    let users = |process: &str| proc.join(process).join("ns/user").read_link();
    match (users(&process.monitor.to_string()), users("self")) {
        (Ok(engines), Ok(own)) => process.is_monitored(proc) && engines != own,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: &str = "0f0f0f";

    /// A `/proc` of this program, the monitor 6 and the container's process 7, each with a file for
    /// its network namespace.
    fn proc(of_process: &str) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (process, namespace) in [("self", "host"), ("6", "host"), ("7", of_process)] {
            let folder = proc.path().join(process);
            fs::create_dir_all(folder.join("ns")).unwrap();
            let namespace = proc.path().join(namespace);
            fs::write(&namespace, "").unwrap();
            fs::hard_link(namespace, folder.join("ns/net")).unwrap();
        }
        fs::write(proc.path().join("7/cgroup"), format!("0::/libpod-{ID}.scope\n")).unwrap();
        proc
    }

    #[test]
    fn namespace_of_the_host_or_a_foreign_process_is_refused() {
        let process = |id| Process { pid: 7, monitor: 6, id };
        assert!(namespace(proc("own").path(), process(ID)).is_ok());
        let refused =
            |proc: tempfile::TempDir, id| namespace(proc.path(), process(id)).unwrap_err().to_string();
        assert_eq!(refused(proc("host"), ID), "it is the host's");
        assert_eq!(refused(proc("own"), "0e0e0e"), "it is not the container's");
    }

    #[test]
    fn filter_is_skipped_only_for_an_engine_in_another_user_namespace() {
        for (engines, expected) in [("user:[1]", false), ("user:[2]", true)] {
            let proc = proc("own");
            fs::write(proc.path().join("6/cmdline"), format!("conmon\0-c\0{ID}\0")).unwrap();
            for (process, users) in [("self", "user:[1]"), ("6", engines)] {
                std::os::unix::fs::symlink(users, proc.path().join(process).join("ns/user")).unwrap();
            }
            let process = |id| Process { pid: 7, monitor: 6, id };
            assert_eq!(is_of_other_users(proc.path(), process(ID)), expected, "{engines}");
            assert!(!is_of_other_users(proc.path(), process("0e0e0e")), "another container's monitor");
        }
    }
}
