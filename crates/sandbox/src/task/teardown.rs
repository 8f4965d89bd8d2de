//! The end of an execution: when all its processes are dead, tampered files are searched for and
//! changes to repositories are imported.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::container::ProgramControl;
use crate::context::Shared;
use crate::egress::RunningProxy;
use crate::error::SandboxError;
use sandbox_workspace::{FailedImport, Findings, GitChanges, TamperedPath, WorkspaceGuard};

use super::rollback;

/// Removes an execution, and returns its findings in the mounts. The caller waits no longer than
/// for these.
pub(super) async fn remove(
    shared: &Shared,
    handle: Arc<dyn ProgramControl>,
    proxy: Option<RunningProxy>,
    hold: WorkspaceGuard,
) -> Findings {
    let removed = async move { Ok(handle.remove().await?) };
    if hold.is_empty() {
        shared.settle_in_background(rollback::tear_down(removed, proxy));
        return Findings::default();
    }
    let (sender, receiver) = oneshot::channel();
    let unseen = hold.unseen("the search for it failed");
    // Continues even if the caller drops this future.
    shared.settle_in_background(rollback::tear_down(look(removed, hold, sender), proxy));
    receiver.await.unwrap_or(unseen)
}

/// Returns `result`. For an error, logs `findings`, as there is no result to report them in.
pub(super) fn logged_on_error<T>(
    result: Result<T, SandboxError>,
    findings: &Findings,
) -> Result<T, SandboxError> {
    if result.is_err() {
        log_findings(findings);
    }
    result
}

/// Searches for tampered paths once the container is removed: a live process could write them
/// meanwhile, or write into a copy that another execution has taken.
async fn look(
    removal: impl Future<Output = Result<(), SandboxError>>,
    hold: WorkspaceGuard,
    sender: oneshot::Sender<Findings>,
) -> Result<(), SandboxError> {
    let removed = removal.await;
    if removed.is_err() {
        tracing::warn!("searching for tampered paths of a task whose container may still exist");
    }
    if let Err(findings) = sender.send(hold.release(removed.is_ok()).await) {
        log_findings(&findings);
    }
    removed
}

/// For an execution without a result to report them in.
pub(super) fn log_findings(findings: &Findings) {
    log(&findings.tampered, &findings.git);
}

/// For an execution whose result was not taken.
pub(super) fn log(tampered: &[TamperedPath], git: &GitChanges) {
    log_git(git);
    for thing in tampered {
        tracing::warn!(
            path = ?thing.path,
            moved_to = ?thing.moved_to,
            problem = ?thing.problem,
            "a task without a result wrote files that programs of the host execute implicitly"
        );
    }
}

/// The imported changes of a task to repositories, and the failed imports.
pub(crate) fn log_git(git: &GitChanges) {
    for FailedImport { path, problem, kept_in, .. } in &git.failed {
        tracing::warn!(repository = ?path, problem, ?kept_in, "failed to import the changes of a task to a repository; they are kept");
    }
    for repository in &git.repositories {
        tracing::info!(repository = ?repository.path, refs = repository.report.refs.len(), "imported the changes of a task");
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write as _};
    use std::fs;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span;

    use crate::spec::Mount;
    use sandbox_workspace::Protection;

    use super::*;

    #[tokio::test]
    async fn file_tampered_with_before_the_containers_removal_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mount = Mount::read_write(&tree, "/workspace").protected(Protection::default());
        for removed in [Ok(()), Err(SandboxError::Busy)] {
            let failed = removed.is_err();
            let quarantine = folder.path().join("quarantine");
            let (_, hold) = WorkspaceGuard::take(vec![mount.clone()], quarantine, None).await.unwrap();
            assert!(!hold.is_empty());
            let removal = async {
                tokio::task::yield_now().await;
                fs::write(tree.join(".envrc"), "evil").unwrap();
                removed
            };
            let (sender, receiver) = oneshot::channel();
            assert_eq!(look(removal, hold, sender).await.is_err(), failed);
            let tampered = receiver.await.unwrap().tampered;
            assert_eq!(tampered.len(), 1, "{tampered:?}");
            assert!(tampered[0].moved_to.is_some() && !tree.join(".envrc").exists());
        }
        let (_, hold) =
            WorkspaceGuard::take(vec![Mount::read_write(&tree, "/workspace")], tree, None).await.unwrap();
        assert!(hold.is_empty());
    }

    #[test]
    fn findings_without_a_result_are_logged() {
        let folder = tempfile::tempdir().unwrap();
        let mut findings = Findings::default();
        findings.tampered.push(TamperedPath::unseen(folder.path().join("a\nb"), "no"));
        let logged = |result: Result<(), SandboxError>| {
            let log = Log::default();
            tracing::subscriber::with_default(log.clone(), || {
                let _ = logged_on_error(result, &findings);
            });
            log.0.lock().unwrap().clone()
        };
        assert_eq!(logged(Ok(())), "");
        let text = logged(Err(SandboxError::Busy));
        assert!(text.contains(r"a\nb") && text.contains("without a result"), "{text}");
    }

    /// Keeps all log messages.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<String>>);

    impl tracing::Subscriber for Log {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target().starts_with("sandbox")
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    impl Visit for Log {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            let _ = write!(self.0.lock().unwrap(), "{field}={value:?} ");
        }
    }
}
