//! The end of an execution: when all its processes are dead, tampered files are searched for and
//! changes to repositories are imported.

use std::sync::Arc;

use futures_util::future::OptionFuture;
use sandbox_proxy_protocol::Traffic;
use tokio::sync::oneshot;

use crate::container::ProgramControl;
use crate::context::Shared;
use crate::egress::RunningProxy;
use crate::error::SandboxError;
use sandbox_workspace::{FailedImport, Findings, GitChanges, TamperedPath, WorkspaceGuard};

use super::rollback;

/// Removes an execution, and returns its findings in the mounts and its traffic. The caller waits no
/// longer than for these; where `all_ended`, not for the removal.
pub(super) async fn remove(
    shared: &Shared,
    handle: Arc<dyn ProgramControl>,
    proxy: Option<RunningProxy>,
    hold: WorkspaceGuard,
    all_ended: bool,
) -> (Findings, Option<Traffic>) {
    let (found, findings) = oneshot::channel();
    let (counted, traffic) = oneshot::channel();
    let unseen = hold.unseen("the search for it failed");
    // Both continue even if the caller drops this future.
    if shared.config().remove_at_shutdown && all_ended && !hold.has_copies() {
        let looked = look(std::future::ready(Ok(())), hold, all_ended, found);
        let ended = OptionFuture::from(proxy.map(|proxy| rollback::end(proxy, counted)));
        shared.leave_in_background(async {
            let (_, ended) = tokio::join!(looked, ended);
            match ended {
                Some((_, proxy)) => proxy.is_dead().await,
                None => true,
            }
        });
    } else {
        let removal = look(async move { Ok(handle.remove().await?) }, hold, all_ended, found);
        shared.settle_in_background(rollback::tear_down(removal, proxy, counted));
    }
    let (findings, traffic) = tokio::join!(findings, traffic);
    (findings.unwrap_or(unseen), traffic.unwrap_or_default())
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

/// Searches for tampered paths once all processes have ended, at the latest when the container is
/// removed: a live one could write them meanwhile. A copy is given to another execution only after
/// the removal, which unmounts it.
async fn look(
    removal: impl Future<Output = Result<(), SandboxError>>,
    hold: WorkspaceGuard,
    all_ended: bool,
    sender: oneshot::Sender<Findings>,
) -> Result<(), SandboxError> {
    let at_once = hold.is_empty() || all_ended && !hold.has_copies();
    let search = async move |is_gone| {
        if let Err(findings) = sender.send(hold.release(is_gone).await) {
            log_findings(&findings);
        }
    };
    if at_once {
        let ((), removed) = tokio::join!(search(true), removal);
        return removed;
    }
    let removed = removal.await;
    if removed.is_err() {
        tracing::warn!("searching for tampered paths of a task whose container may still exist");
    }
    search(removed.is_ok()).await;
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
            assert_eq!(look(removal, hold, false, sender).await.is_err(), failed);
            let tampered = receiver.await.unwrap().tampered;
            assert_eq!(tampered.len(), 1, "{tampered:?}");
            assert!(tampered[0].moved_to.is_some() && !tree.join(".envrc").exists());
        }
        let (_, hold) =
            WorkspaceGuard::take(vec![Mount::read_write(&tree, "/workspace")], tree, None).await.unwrap();
        assert!(hold.is_empty());
    }

    #[tokio::test]
    async fn search_waits_for_the_removal_unless_all_processes_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let [tree, copied] = ["tree", "copied"].map(|name| folder.path().join(name));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&copied).unwrap();
        fs::write(tree.join(".envrc"), "evil").unwrap();
        let protected = Mount::read_write(&tree, "/workspace").protected(Protection::default());
        let copy = Mount::copy_on_write(&copied, "/copy", folder.path().join("copy"));
        for (mounts, all_ended, waits) in [
            (vec![protected.clone()], true, false),
            (vec![protected.clone()], false, true),
            (vec![protected, copy], true, true),
            (vec![Mount::read_write(&tree, "/workspace")], false, false),
        ] {
            let quarantine = folder.path().join("quarantine");
            let (_, mut hold) = WorkspaceGuard::take(mounts, quarantine, None).await.unwrap();
            hold.prepared().await.unwrap();
            let (sender, mut receiver) = oneshot::channel();
            let (remove, removal) = oneshot::channel();
            let removal = async { removal.await.map_err(|_| SandboxError::Busy) };
            let looked = tokio::spawn(look(removal, hold, all_ended, sender));
            if waits {
                let early = tokio::time::timeout(std::time::Duration::from_millis(50), &mut receiver).await;
                assert!(early.is_err(), "it did not wait");
                remove.send(()).unwrap();
                receiver.await.unwrap();
            } else {
                receiver.await.unwrap();
                remove.send(()).unwrap();
            }
            looked.await.unwrap().unwrap();
        }
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
