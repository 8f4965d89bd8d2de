//! Removes objects that no instance owns any more.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde::Serialize;

use sandbox_podman::{Engine, EngineError};
use sandbox_workspace::GitChanges;

use super::inventory::{Found, ObjectKind, find, find_instance};
use super::processes;
use crate::instance::{self, Liveness, LockLocation};
use crate::labels::{Labels, Role};

/// The number of concurrent removals; the engine serializes those of one lock anyway.
const AT_ONCE: usize = 4;

/// The pauses between attempts when something could not be removed.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// The result of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SweepReport {
    /// Names of removed containers.
    pub containers: Vec<String>,
    /// Names of removed networks.
    pub networks: Vec<String>,
    /// Ids of their dead instances.
    pub instances: Vec<String>,
    /// Names of objects that could not be removed; the log has the reasons.
    pub failed: Vec<String>,
    /// The changes to repositories by tasks of dead instances that were imported, and those that
    /// were not.
    pub git: GitChanges,
}

/// Removes the objects of dead instances of `prefix`: containers, then networks, then lock files.
/// The egress network is kept, even if a dead instance created it: a living instance may be about
/// to use it.
pub(crate) async fn sweep(engine: &Engine, prefix: &str) -> Result<SweepReport, EngineError> {
    let found = find(engine, prefix).await?;
    let mut stale = stale(found, instance::liveness);
    let mut locks: BTreeSet<PathBuf> = BTreeSet::new();
    if !stale.is_empty() {
        // What its owner has removed meanwhile is not ours.
        let now = find(engine, prefix).await?;
        stale.retain(|stale| now.iter().any(|found| found.id == stale.id));
        locks = released(&stale, &now);
    }
    let (report, _) = remove(engine, stale).await;
    if report.failed.is_empty() {
        for lock in &locks {
            instance::remove_dead_file(lock);
        }
    }
    if !report.instances.is_empty() {
        tracing::info!(
            instances = report.instances.len(),
            containers = report.containers.len(),
            networks = report.networks.len(),
            "removed objects of dead instances"
        );
    }
    Ok(report)
}

/// The lock files of instances of which nothing is left without `stale`: that of a run that outlives
/// its instance shows later that this is dead.
fn released(stale: &[Found], all: &[Found]) -> BTreeSet<PathBuf> {
    let path = |found: &Found| found.labels.lock().path.clone();
    let stays = |found: &&Found| {
        found.labels.role() != Role::Egress && !stale.iter().any(|stale| stale.id == found.id)
    };
    let kept: BTreeSet<PathBuf> = all.iter().filter(stays).map(path).collect();
    stale.iter().map(path).filter(|lock| !kept.contains(lock)).collect()
}

/// Removes all objects of the instance `id`, except the egress network, which others may use.
///
/// An abandoned call may continue in the engine: a container that appears after a query keeps its
/// network, and the next query finds it.
pub(crate) async fn remove_instance(engine: &Engine, prefix: &str, id: &str) -> Result<(), EngineError> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let mut found = find_instance(engine, prefix, id).await?;
        found.retain(|found| found.labels.role() != Role::Egress);
        let Some(error) = remove(engine, without_runs(found)).await.1 else {
            return Ok(());
        };
        match pauses.next() {
            // tidy: sleep: no event reports the end of an abandoned call.
            Some(pause) if !error.is_unreachable() && !error.is_deadline() => {
                tokio::time::sleep(pause).await;
            }
            _ => return Err(error),
        }
    }
}

/// Removes all objects with the instance and the context of `labels`.
pub(crate) async fn remove_context(engine: &Engine, labels: &Labels) -> Result<(), EngineError> {
    let mut found = find_instance(engine, labels.owner(), labels.instance()).await?;
    found.retain(|found| found.labels.context() == labels.context());
    remove(engine, found).await.1.map_or(Ok(()), Err)
}

/// Whether the instance of `labels` is alive.
pub(crate) fn is_alive(labels: &Labels) -> bool {
    instance::liveness(labels.lock()) == Liveness::Alive
}

/// Whether a living instance with another state directory than `own` has objects with the same
/// prefix. The caller holds the lock that every user of the egress network with the same state
/// directory would hold too. The network itself does not count: it may outlive its creator, whose lock
/// may be out of sight, for example after a reboot.
pub(crate) async fn others_alive(engine: &Engine, own: &Labels) -> Result<bool, EngineError> {
    Ok(are_others_alive(&find(engine, own.owner()).await?, own))
}

fn are_others_alive(found: &[Found], own: &Labels) -> bool {
    found.iter().filter(|found| found.labels.role() != Role::Egress).any(|found| {
        let lock = found.labels.lock();
        !lock.has_same_state_dir(own.lock()) && instance::liveness(lock) == Liveness::Alive
    })
}

/// The objects of `found` that no instance owns any more.
fn stale(mut found: Vec<Found>, liveness: impl Fn(&LockLocation) -> Liveness) -> Vec<Found> {
    found.retain(|found| found.labels.role() != Role::Egress);
    // Each lock is checked once: an instance that ends meanwhile is dead for all its objects or for
    // none.
    let locks: BTreeSet<LockLocation> = found.iter().map(|found| found.labels.lock().clone()).collect();
    let dead: BTreeSet<LockLocation> =
        locks.iter().filter(|lock| liveness(lock) == Liveness::Dead).cloned().collect();
    found.retain(|found| dead.contains(found.labels.lock()));
    without_runs(found)
}

/// The objects of `found` that do not outlive their instance. The networks of a run are kept: the
/// engine does not remove a network with a container on it. Its proxy is not: it has ended.
fn without_runs(found: Vec<Found>) -> Vec<Found> {
    let place = |found: &Found| (found.labels.instance().to_owned(), found.labels.context().to_owned());
    let runs: BTreeSet<_> =
        found.iter().filter(|found| found.labels.role().outlives(&found.state)).map(place).collect();
    found
        .into_iter()
        .filter(|found| found.labels.role().leaves_run() || !runs.contains(&place(found)))
        .collect()
}

/// Removes containers first: the engine does not remove a network with a container on it. Continues
/// after a failure, and returns the first one.
async fn remove(engine: &Engine, stale: Vec<Found>) -> (SweepReport, Option<EngineError>) {
    let mut report = SweepReport::default();
    let mut first_error = None;
    let instances: BTreeSet<String> = stale.iter().map(|found| found.labels.instance().to_owned()).collect();
    report.instances = instances.into_iter().collect();
    let (containers, networks): (Vec<_>, Vec<_>) =
        stale.into_iter().partition(|found| found.kind == ObjectKind::Container);
    let mut removed_ids = BTreeSet::new();
    for kind in [containers, networks] {
        let removals = stream::iter(kind).map(async |found| {
            let removed = match found.kind {
                ObjectKind::Container => engine.remove_container(&found.id).await,
                ObjectKind::Network => engine.remove_network(&found.id).await,
            };
            (found, removed)
        });
        let mut removals = std::pin::pin!(removals.buffered(AT_ONCE));
        while let Some((found, removed)) = removals.next().await {
            match (removed, found.kind) {
                (Ok(()), ObjectKind::Container) => {
                    report.containers.push(found.name);
                    removed_ids.insert(found.id);
                }
                (Ok(()), ObjectKind::Network) => report.networks.push(found.name),
                (Err(error), _) => {
                    tracing::warn!(%error, object = %found.name, "not removed; the next sweep removes it");
                    report.failed.push(found.name);
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    if !removed_ids.is_empty() {
        // A panic there must not hide the report of the removals.
        let _ = tokio::task::spawn_blocking(move || processes::kill_leftovers(&removed_ids)).await;
    }
    (report, first_error)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::instance::InstanceLock;

    fn object(kind: ObjectKind, role: Role, name: &str, lock: &InstanceLock) -> Found {
        Found {
            kind,
            id: name.to_owned(),
            name: name.to_owned(),
            state: String::new(),
            labels: Labels::new("sandbox", lock, "c").with_role(role),
        }
    }

    fn names(found: &[Found]) -> Vec<&str> {
        found.iter().map(|found| found.name.as_str()).collect()
    }

    /// Objects of two instances: a task each, and the egress network, which the first one created.
    fn objects(first: &InstanceLock, second: &InstanceLock) -> Vec<Found> {
        vec![
            object(ObjectKind::Container, Role::Task, "task-1", first),
            object(ObjectKind::Network, Role::Egress, "egress", first),
            object(ObjectKind::Container, Role::Proxy, "proxy-2", second),
        ]
    }

    #[test]
    fn objects_of_dead_instances_are_removed_and_the_shared_network_is_kept() {
        let state = tempfile::tempdir().unwrap();
        let first = InstanceLock::acquire(state.path()).unwrap();
        let second = InstanceLock::acquire(state.path()).unwrap();
        let all = objects(&first, &second);
        assert!(stale(all.clone(), instance::liveness).is_empty(), "both live");
        let network = all.get(1..2).unwrap().to_vec();
        assert!(stale(network, |_| panic!("nothing depends on its creator")).is_empty());

        drop(first);
        let left = stale(all.clone(), instance::liveness);
        assert_eq!(names(&left), ["task-1"], "the second lives");

        // As after kill -9: the file exists, and its lock is free.
        let file = second.location().path.clone();
        let content = fs::read(&file).unwrap();
        drop(second);
        fs::write(&file, content).unwrap();
        assert_eq!(names(&stale(all, instance::liveness)), ["task-1", "proxy-2"]);
    }

    #[test]
    fn instances_with_another_state_directory_count_as_others() {
        let (state, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = InstanceLock::acquire(state.path()).unwrap();
        let neighbour = InstanceLock::acquire(state.path()).unwrap();
        let other = InstanceLock::acquire(elsewhere.path()).unwrap();
        let task = |lock| [object(ObjectKind::Container, Role::Task, "task", lock)];
        let labels = Labels::new("sandbox", &own, "c");
        assert!(!are_others_alive(&task(&neighbour), &labels));
        assert!(!are_others_alive(&task(&own), &labels));
        assert!(are_others_alive(&task(&other), &labels));
        // The creator of the network may be alive and not use it, and it may be out of sight.
        let egress = [object(ObjectKind::Network, Role::Egress, "egress", &other)];
        assert!(!are_others_alive(&egress, &labels));
    }

    #[test]
    fn started_run_is_kept_with_its_network_and_without_its_proxy() {
        let state = tempfile::tempdir().unwrap();
        let lock = InstanceLock::acquire(state.path()).unwrap();
        for (of_run, expected) in [
            ("running", vec!["proxy", "other"]),
            ("exited", vec!["proxy", "other"]),
            ("created", vec!["run", "network", "proxy", "other"]),
            ("initialized", vec!["run", "network", "proxy", "other"]),
        ] {
            let run = object(ObjectKind::Container, Role::Run, "run", &lock);
            let other = object(ObjectKind::Container, Role::Task, "other", &lock);
            let all = vec![
                Found { state: of_run.to_owned(), ..run },
                object(ObjectKind::Network, Role::Network, "network", &lock),
                object(ObjectKind::Container, Role::Proxy, "proxy", &lock),
                Found { labels: Labels::new("sandbox", &lock, "another context"), ..other },
            ];
            let dead = stale(all.clone(), |_| Liveness::Dead);
            assert_eq!(names(&dead), expected, "{of_run}");
            let is_released = released(&dead, &all).contains(&lock.location().path);
            assert_eq!(is_released, dead.len() == all.len(), "{of_run}: the lock file stays with the run");
        }
    }

    #[test]
    fn object_of_unknown_owner_is_kept() {
        let state = tempfile::tempdir().unwrap();
        let lock = InstanceLock::acquire(state.path()).unwrap();
        let all = vec![object(ObjectKind::Container, Role::Task, "task", &lock)];
        fs::remove_file(&lock.location().path).unwrap();
        fs::create_dir(&lock.location().path).unwrap();
        assert!(stale(all, instance::liveness).is_empty());
    }

    #[test]
    fn each_lock_is_checked_once() {
        let state = tempfile::tempdir().unwrap();
        let first = InstanceLock::acquire(state.path()).unwrap();
        let second = InstanceLock::acquire(state.path()).unwrap();
        let asked = std::cell::Cell::new(0);
        stale(objects(&first, &second), |_| {
            asked.set(asked.get() + 1);
            Liveness::Alive
        });
        assert_eq!(asked.get(), 2);
    }
}
