//! Removing what no instance owns any more.

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

/// How many objects are removed at once; the engine does the removals of one lock in turn anyway.
const AT_ONCE: usize = 4;

/// How long after a look another one follows where something could not be removed.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// What a sweep removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SweepReport {
    /// Names of containers.
    pub containers: Vec<String>,
    /// Names of networks.
    pub networks: Vec<String>,
    /// Ids of the dead instances they belonged to.
    pub instances: Vec<String>,
    /// Names of objects that could not be removed; the log says why.
    pub failed: Vec<String>,
    /// What came of what tasks of dead instances did in repositories, and what did not.
    pub git: GitChanges,
}

/// Removes what dead instances of `prefix` left: containers, then networks, then lock files. The
/// egress network stays, even if a dead instance made it: an instance that lives may be about to
/// use it.
pub(crate) async fn sweep(engine: &Engine, prefix: &str) -> Result<SweepReport, EngineError> {
    let found = find(engine, prefix).await?;
    let stale = stale(found, instance::liveness);
    let locks: BTreeSet<PathBuf> = stale.iter().map(|found| found.labels.lock().path.clone()).collect();
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
            "removed what dead instances left"
        );
    }
    Ok(report)
}

/// Removes everything that the instance `id` made, but the egress network, which others may use.
///
/// A call that was given up may go on in the engine: a container that appears after a look keeps
/// its network, and the next look finds it.
pub(crate) async fn remove_instance(engine: &Engine, prefix: &str, id: &str) -> Result<(), EngineError> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let mut found = find_instance(engine, prefix, id).await?;
        found.retain(|found| found.labels.role() != Role::Egress);
        let Some(error) = remove(engine, without_runs(found)).await.1 else {
            return Ok(());
        };
        match pauses.next() {
            // tidy: sleep: no event says that a call that was given up has come to its end.
            Some(pause) if !error.is_unreachable() && !error.is_deadline() => {
                tokio::time::sleep(pause).await;
            }
            _ => return Err(error),
        }
    }
}

/// Removes everything with the instance and the context of `labels`.
pub(crate) async fn remove_context(engine: &Engine, labels: &Labels) -> Result<(), EngineError> {
    let mut found = find_instance(engine, labels.owner(), labels.instance()).await?;
    found.retain(|found| found.labels.context() == labels.context());
    remove(engine, found).await.1.map_or(Ok(()), Err)
}

/// Whether the instance of `labels` lives.
pub(crate) fn is_alive(labels: &Labels) -> bool {
    instance::liveness(labels.lock()) == Liveness::Alive
}

/// Whether a living instance with another state directory than that of `own` has objects under the
/// same prefix. The caller holds the lock that every user of the egress network with the same state
/// directory would hold too.
pub(crate) async fn others_alive(engine: &Engine, own: &Labels) -> Result<bool, EngineError> {
    Ok(are_others_alive(&find(engine, own.owner()).await?, own))
}

fn are_others_alive(found: &[Found], own: &Labels) -> bool {
    found.iter().any(|found| {
        let lock = found.labels.lock();
        !lock.has_same_state_dir(own.lock()) && instance::liveness(lock) == Liveness::Alive
    })
}

/// Which of `found` no instance owns any more.
fn stale(found: Vec<Found>, liveness: impl Fn(&LockLocation) -> Liveness) -> Vec<Found> {
    // Each lock is asked once: an instance that ends meanwhile is dead for all its objects or for
    // none.
    let locks: BTreeSet<LockLocation> = found.iter().map(|found| found.labels.lock().clone()).collect();
    let dead: BTreeSet<LockLocation> =
        locks.iter().filter(|lock| liveness(lock) == Liveness::Dead).cloned().collect();
    let stale = found
        .into_iter()
        .filter(|found| dead.contains(found.labels.lock()) && found.labels.role() != Role::Egress)
        .collect();
    without_runs(stale)
}

/// Those of `found` that do not outlive their instance. The networks of a run stay with it: the
/// engine keeps a network that a container is on. Its proxy does not: it has ended.
fn without_runs(found: Vec<Found>) -> Vec<Found> {
    let place = |found: &Found| (found.labels.instance().to_owned(), found.labels.context().to_owned());
    let runs: BTreeSet<_> =
        found.iter().filter(|found| found.labels.role().outlives(&found.state)).map(place).collect();
    found
        .into_iter()
        .filter(|found| found.labels.role() == Role::Proxy || !runs.contains(&place(found)))
        .collect()
}

/// Removes containers first: the engine keeps a network that a container is on. Goes on after a
/// failure, and gives the first.
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
        // A fault of it would be no reason not to report what was removed.
        let _ = tokio::task::spawn_blocking(move || processes::end_left(&removed_ids)).await;
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

    /// Objects of two instances: a task each, and the egress network, which the first one made.
    fn objects(first: &InstanceLock, second: &InstanceLock) -> Vec<Found> {
        vec![
            object(ObjectKind::Container, Role::Task, "task-1", first),
            object(ObjectKind::Network, Role::Egress, "egress", first),
            object(ObjectKind::Container, Role::Proxy, "proxy-2", second),
        ]
    }

    #[test]
    fn only_what_the_dead_left_is_removed_and_never_the_shared_network() {
        let state = tempfile::tempdir().unwrap();
        let first = InstanceLock::acquire(state.path()).unwrap();
        let second = InstanceLock::acquire(state.path()).unwrap();
        let all = objects(&first, &second);
        assert!(stale(all.clone(), instance::liveness).is_empty(), "both live");

        drop(first);
        let left = stale(all.clone(), instance::liveness);
        assert_eq!(names(&left), ["task-1"], "the second lives");

        // As after kill -9: the file is there, and its lock is free.
        let file = second.location().path.clone();
        let content = fs::read(&file).unwrap();
        drop(second);
        fs::write(&file, content).unwrap();
        assert_eq!(names(&stale(all, instance::liveness)), ["task-1", "proxy-2"]);
    }

    #[test]
    fn others_are_those_with_a_state_directory_of_their_own() {
        let (state, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = InstanceLock::acquire(state.path()).unwrap();
        let beside = InstanceLock::acquire(state.path()).unwrap();
        let other = InstanceLock::acquire(elsewhere.path()).unwrap();
        let egress = |lock| [object(ObjectKind::Network, Role::Egress, "egress", lock)];
        let labels = Labels::new("sandbox", &own, "c");
        // Two that end at once: the one that made the network still lives, and uses it no more.
        assert!(!are_others_alive(&egress(&beside), &labels));
        assert!(!are_others_alive(&egress(&own), &labels));
        assert!(are_others_alive(&egress(&other), &labels));
    }

    #[test]
    fn a_run_that_was_started_stays_with_its_network_and_without_its_proxy() {
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
            assert_eq!(names(&stale(all, |_| Liveness::Dead)), expected, "{of_run}");
        }
    }

    #[test]
    fn what_is_unknown_stays() {
        let state = tempfile::tempdir().unwrap();
        let lock = InstanceLock::acquire(state.path()).unwrap();
        let all = vec![object(ObjectKind::Container, Role::Task, "task", &lock)];
        fs::remove_file(&lock.location().path).unwrap();
        fs::create_dir(&lock.location().path).unwrap();
        assert!(stale(all, instance::liveness).is_empty());
    }

    #[test]
    fn each_lock_is_asked_once() {
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
