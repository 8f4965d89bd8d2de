//! Mounted volumes: write access and symbolic links in their paths.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use e2e_tests::fixture::Fixture;
use sandbox::runs::{LifecycleHooks, RunSpec, VolumeSpec};

use super::fixture::{all_lines, chain, exists, lines, name, spec, stop};

#[tokio::test(flavor = "multi_thread")]
async fn read_only_volume_cannot_be_written() {
    let fixture = Fixture::new().await;
    let folder = fixture.folder().join("folder");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("kept"), "as it was\n").expect("a file");
    let script = "for file in /v/kept /v/new; do { echo changed >$file; } 2>&1 | grep -o 'Read-only file system'; done; \
                  rm -f /v/kept 2>&1 | grep -o 'Read-only file system'; cat /v/kept 2>/dev/null; true";
    let volume = || VolumeSpec::new(&folder, "/v");
    let read_only = spec(&fixture, "ro", script).volume(volume().read_only());
    let refused = "Read-only file system";
    assert_eq!(lines(&fixture, read_only).await, [refused, refused, refused, "as it was"]);
    let kept = fs::read_to_string(folder.join("kept")).expect("a file");
    assert!(kept == "as it was\n" && !folder.join("new").exists());
    // The control: without the option, all of that succeeds.
    assert_eq!(lines(&fixture, spec(&fixture, "rw", script).volume(volume())).await, [""; 0]);
    assert!(!folder.join("kept").exists() && folder.join("new").exists());
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_volume_protects_a_part_of_a_writable_one() {
    let fixture = Fixture::new().await;
    let work = fixture.folder().join("tree");
    fs::create_dir_all(work.join(".git/hooks")).expect("a folder");
    let script = "cd /w; touch ours; touch .git/hooks/pre-commit 2>/dev/null && echo planted; mv .git old 2>/dev/null && echo moved; true";
    let writable = |run: &str| spec(&fixture, run, script).volume(VolumeSpec::new(&work, "/w"));
    let git = VolumeSpec::new(work.join(".git"), "/w/.git").read_only();
    assert_eq!(lines(&fixture, writable("hooks-kept").volume(git)).await, [""; 0]);
    assert!(work.join("ours").exists() && !work.join(".git/hooks/pre-commit").exists());
    // The control: without it, the hook is planted on the host.
    assert_eq!(lines(&fixture, writable("hooks-open")).await, ["planted", "moved"]);
    assert!(work.join("old/hooks/pre-commit").exists());
    fixture.close().await;
}

/// A folder that becomes a link to a folder of the host.
#[derive(Clone)]
struct Trap(PathBuf);

impl Trap {
    fn new(fixture: &Fixture, called: &str) -> Self {
        let trap = Self(fixture.folder().join(called));
        for (folder, text) in [("work", "of the run\n"), ("secret", "of the host\n")] {
            fs::create_dir_all(trap.0.join(folder)).expect("a folder");
            fs::write(trap.0.join(folder).join("file"), text).expect("a file");
        }
        trap
    }

    fn volume(&self) -> VolumeSpec {
        VolumeSpec::new(self.0.join("work"), "/v")
    }

    fn spring(&self) {
        fs::rename(self.0.join("work"), self.0.join("moved")).expect("it can be moved");
        symlink(self.0.join("secret"), self.0.join("work")).expect("a link");
    }
}

/// A run that prints a file of its volume.
fn printing(fixture: &Fixture, run: &str, volume: VolumeSpec) -> RunSpec {
    spec(fixture, run, "cat /v/file").volume(volume)
}

async fn assert_refused(fixture: &Fixture, run: &str, launched: Result<(), sandbox::SandboxError>) {
    let text = chain(&launched.expect_err("the folder was replaced by a link"));
    assert!(text.contains("became a symbolic link"), "{text}");
    assert!(!exists(run).await);
    assert!(!fixture.sandbox.runs().task_state_dir(&name(run)).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_replaced_by_a_link_before_the_creation_is_refused() {
    let fixture = Fixture::new().await;
    let runs = fixture.sandbox.runs();
    for kind in ["mounted", "copied", "live"] {
        let trap = Trap::new(&fixture, kind);
        let of_kind = |run: &str| match kind {
            "mounted" => printing(&fixture, run, trap.volume()),
            "copied" => printing(&fixture, run, trap.volume()).sealed(),
            _ => printing(&fixture, run, trap.volume().live()).sealed(),
        };
        let springing = trap.clone();
        let hooks = LifecycleHooks::default().pre_start(move |_| {
            springing.spring();
            async { Ok(()) }
        });
        let run = format!("early-{kind}");
        let launched = runs.run(of_kind(&run), hooks).await;
        assert_refused(&fixture, &run, launched).await;
        // The control: a check after the replacement follows the link.
        assert_eq!(lines(&fixture, of_kind(&run)).await, ["of the host"]);
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_replaced_by_a_link_before_the_start_is_refused_and_a_copy_is_unchanged() {
    let fixture = Fixture::new().await;
    let runs = fixture.sandbox.runs();
    let (mounted, copied) = (Trap::new(&fixture, "mounted"), Trap::new(&fixture, "copied"));
    let specs = [
        printing(&fixture, "linked", mounted.volume()),
        printing(&fixture, "linked-sealed", copied.volume()).sealed(),
    ];
    for spec in specs {
        runs.create(spec, LifecycleHooks::default()).await.expect("a good run");
    }
    mounted.spring();
    copied.spring();
    let started = runs.start(&name("linked")).await;
    assert_refused(&fixture, "linked", started).await;
    runs.start(&name("linked-sealed")).await.expect("a good run");
    assert_eq!(all_lines(&fixture, &name("linked-sealed")).await, ["of the run"]);
    stop(&fixture, "linked-sealed").await;
    // The control: a new run follows the link.
    assert_eq!(lines(&fixture, printing(&fixture, "linked", mounted.volume())).await, ["of the host"]);
    fixture.close().await;
}
