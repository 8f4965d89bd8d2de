//! Mirrors of an upstream that adds, rewrites and deletes.

use sandbox_gate::{ChangeKind, GateError, Repository, Rewrites, SyncReport};

use super::fixture::{Fixture, refs};

struct Mirror {
    fixture: Fixture,
    repository: Repository,
}

impl Mirror {
    /// A mirror of an upstream with the branches `main` and `side`, whose work tree is the folder
    /// `up`.
    async fn new() -> Self {
        let fixture = Fixture::new();
        fixture.must("git init -q -b trunk up && cd up && git commit -qm one --allow-empty && git branch side && git tag v1").await;
        let upstream = fixture.path("up");
        let repository = fixture.gate.init("project", upstream.to_str()).await.unwrap();
        Self { fixture, repository }
    }

    async fn upstream(&self, script: &str) {
        self.fixture.must(&format!("cd up && {script}")).await;
    }

    /// Runs `script`, which pushes, in a client's clone.
    async fn client(&self, script: &str) {
        let path = self.repository.path().display();
        self.fixture
            .must(&format!("rm -rf client && git clone -q '{path}' client && cd client && {script}"))
            .await;
    }

    async fn sync(&self, rewrites: Rewrites) -> (Vec<String>, Vec<String>) {
        let SyncReport { applied, pending, .. } = self.repository.sync(rewrites).await.unwrap();
        let texts = |changes: Vec<sandbox_gate::Change>| {
            changes.iter().map(|change| format!("{} {}", change.kind, change.name)).collect()
        };
        (texts(applied), texts(pending))
    }

    async fn refs(&self) -> String {
        refs(&self.fixture, self.repository.path(), false).await.join(", ")
    }

    async fn backups(&self) -> usize {
        refs(&self.fixture, self.repository.path(), true).await.len()
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn upstream_additions_are_applied() {
    let mirror = Mirror::new().await;
    let created = ["created refs/heads/side", "created refs/heads/trunk", "created refs/tags/v1"];
    assert_eq!(mirror.sync(Rewrites::Keep).await, (texts(&created), vec![]));
    assert_eq!(mirror.sync(Rewrites::Keep).await, (vec![], vec![]));
    mirror.upstream("git commit -qm two --allow-empty").await;
    assert_eq!(mirror.sync(Rewrites::Keep).await.0, ["advanced refs/heads/trunk"]);
    assert_eq!(mirror.refs().await, "refs/heads/side one, refs/heads/trunk two, refs/tags/v1 one");
    // Clones begin with the upstream's default branch.
    mirror.client("test \"$(git branch --show-current)\" = trunk").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upstream_rewrites_and_deletions_wait_and_are_backed_up() {
    let mirror = Mirror::new().await;
    mirror.sync(Rewrites::Keep).await;
    mirror
        .upstream("git commit -q --amend -m other --allow-empty && git branch -qD side && git tag -f v1 HEAD")
        .await;
    let changes = ["deleted refs/heads/side", "rewritten refs/heads/trunk", "rewritten refs/tags/v1"];
    for _ in 0..2 {
        assert_eq!(mirror.sync(Rewrites::Keep).await, (vec![], texts(&changes)));
    }
    assert_eq!(mirror.refs().await, "refs/heads/side one, refs/heads/trunk one, refs/tags/v1 one");
    assert_eq!(mirror.sync(Rewrites::Apply).await, (texts(&changes), vec![]));
    assert_eq!(mirror.refs().await, "refs/heads/trunk other, refs/tags/v1 other");
    assert_eq!(mirror.backups().await, 3);
    assert_eq!(mirror.sync(Rewrites::Apply).await, (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_upstream_waits_and_is_applied_on_request() {
    let mirror = Mirror::new().await;
    mirror.upstream("git commit -qm two --allow-empty").await;
    mirror.sync(Rewrites::Keep).await;
    mirror.client("git commit -qm agent --allow-empty && git push -q origin HEAD:side").await;
    mirror.upstream("git reset -q --hard HEAD~1").await;
    let set_back = texts(&["rewritten refs/heads/trunk"]);
    for _ in 0..2 {
        assert_eq!(mirror.sync(Rewrites::Keep).await, (vec![], set_back.clone()));
    }
    assert_eq!(mirror.refs().await, "refs/heads/side agent, refs/heads/trunk two, refs/tags/v1 one");
    assert_eq!(mirror.sync(Rewrites::Apply).await, (set_back, vec![]));
    assert_eq!(mirror.refs().await, "refs/heads/side agent, refs/heads/trunk one, refs/tags/v1 one");
    assert_eq!(mirror.backups().await, 1);
    mirror.upstream("git commit -qm three --allow-empty").await;
    assert_eq!(mirror.sync(Rewrites::Keep).await.0, ["advanced refs/heads/trunk"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_pushed_by_clients_are_never_lost() {
    let mirror = Mirror::new().await;
    mirror.sync(Rewrites::Keep).await;
    mirror
        .client("git commit -qm agent --allow-empty && git push -q origin HEAD:agent/x HEAD:trunk HEAD:side")
        .await;
    assert_eq!(mirror.sync(Rewrites::Apply).await, (vec![], vec![]), "it is only ahead");
    // The upstream diverges, and has a branch that a client's branch blocks.
    mirror.upstream("git commit -qm two --allow-empty && git branch agent").await;
    let pending = ["created refs/heads/agent", "rewritten refs/heads/trunk"];
    assert_eq!(mirror.sync(Rewrites::Keep).await, (vec![], texts(&pending)));
    let refs = mirror.refs().await;
    assert!(
        refs.starts_with("refs/heads/agent/x agent, refs/heads/side agent, refs/heads/trunk agent"),
        "{refs}"
    );
    let (applied, pending) = mirror.sync(Rewrites::Apply).await;
    assert_eq!(
        (applied, pending),
        (texts(&["rewritten refs/heads/trunk"]), texts(&["created refs/heads/agent"]))
    );
    assert!(
        mirror
            .refs()
            .await
            .starts_with("refs/heads/agent/x agent, refs/heads/side agent, refs/heads/trunk two")
    );
    assert_eq!(mirror.backups().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn branch_becomes_a_folder_of_branches() {
    let mirror = Mirror::new().await;
    mirror.sync(Rewrites::Keep).await;
    mirror.upstream("git branch -m side side/a").await;
    let pending = ["created refs/heads/side/a", "deleted refs/heads/side"];
    let mut found = mirror.sync(Rewrites::Keep).await.1;
    found.sort();
    assert_eq!(found, pending);
    mirror.sync(Rewrites::Apply).await;
    assert_eq!(mirror.refs().await, "refs/heads/side/a one, refs/heads/trunk one, refs/tags/v1 one");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_upstream_changes_nothing() {
    let mirror = Mirror::new().await;
    mirror.sync(Rewrites::Keep).await;
    let before = mirror.refs().await;
    mirror.fixture.must("mv up gone").await;
    let error = mirror.repository.sync(Rewrites::Apply).await.unwrap_err();
    assert!(matches!(error, GateError::Git { .. }), "{error}");
    assert_eq!(mirror.refs().await, before);
    let alone = mirror.fixture.gate.init("alone", None).await.unwrap();
    assert!(matches!(alone.sync(Rewrites::Keep).await, Err(GateError::NoUpstream { .. })));
    assert_eq!(ChangeKind::Advanced.to_string(), "advanced");
}

/// A branch deleted by a client and renamed upstream blocks no other branch.
#[tokio::test(flavor = "multi_thread")]
async fn branch_removed_on_both_sides_leaves_room_for_another() {
    let mirror = Mirror::new().await;
    mirror.sync(Rewrites::Keep).await;
    mirror.client("git push -q origin :side").await;
    mirror.upstream("git branch -m side side/a").await;
    assert_eq!(mirror.sync(Rewrites::Keep).await, (texts(&["created refs/heads/side/a"]), vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn branch_with_commits_of_clients_survives_its_upstream_deletion() {
    let mirror = Mirror::new().await;
    mirror.sync(Rewrites::Keep).await;
    mirror.client("git commit -qm agent --allow-empty && git push -q origin HEAD:side").await;
    mirror.upstream("git branch -qD side").await;
    assert_eq!(mirror.sync(Rewrites::Apply).await, (vec![], vec![]));
    assert!(mirror.refs().await.starts_with("refs/heads/side agent"));
}

#[tokio::test(flavor = "multi_thread")]
async fn branch_that_is_not_a_commit_blocks_no_other() {
    let mirror = Mirror::new().await;
    mirror
        .upstream(
            "git rev-parse HEAD:x 2>/dev/null; echo x | git hash-object -w --stdin > .git/refs/heads/bad",
        )
        .await;
    let (applied, pending) = mirror.sync(Rewrites::Apply).await;
    assert_eq!((applied.len(), pending), (3, texts(&["created refs/heads/bad"])));
}

/// A client may make git believe that one commit is another.
#[tokio::test(flavor = "multi_thread")]
async fn replaced_objects_are_not_believed() {
    let mirror = Mirror::new().await;
    mirror.sync(Rewrites::Keep).await;
    mirror.upstream("git commit -q --amend -m other --allow-empty").await;
    let other = mirror.fixture.must("git -C up rev-parse trunk").await;
    let fake = "fake=$(git commit-tree -p HEAD -m fake HEAD^{tree})";
    mirror.client(&format!("{fake} && git push -q origin $fake:refs/replace/{other}")).await;
    assert_eq!(mirror.sync(Rewrites::Keep).await.1, ["rewritten refs/heads/trunk"]);
}
