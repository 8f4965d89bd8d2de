//! Sealed runs: copies instead of mounts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use e2e_tests::fixture::Fixture;
use sandbox::Isolation;
use sandbox::runs::{LifecycleHooks, VolumeSpec};

use super::fixture::{LONG, lines, name, spec, stop};

/// A folder with a file `a` and a folder `sub` with a file `b`.
fn folder(fixture: &Fixture, called: &str) -> PathBuf {
    let folder = fixture.folder().join(called);
    fs::create_dir_all(folder.join("sub")).expect("a folder");
    fs::write(folder.join("a"), format!("{called}\n")).expect("a file");
    fs::write(folder.join("sub/b"), "b\n").expect("a file");
    fs::set_permissions(folder.join("a"), fs::Permissions::from_mode(0o600)).expect("its rights");
    folder
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_copy_stay_inside_and_of_a_live_volume_reach_the_host() {
    let fixture = Fixture::new().await;
    let (work, live) = (folder(&fixture, "work"), folder(&fixture, "live"));
    let script = "cat /w/a /w/sub/b; echo changed | tee /w/a /live/a >/w/new; cat /w/a";
    let both = |run: &str| {
        spec(&fixture, run, script)
            .volume(VolumeSpec::new(&work, "/w").private())
            .volume(VolumeSpec::new(&live, "/live").live())
    };
    assert_eq!(lines(&fixture, both("sealed").sealed()).await, ["work", "b", "changed"]);
    assert_eq!(read(&work.join("a")), "work\n");
    assert!(!work.join("new").exists());
    assert_eq!(read(&live.join("a")), "changed\n");
    // The control: with mounts, both changes reach the host.
    assert_eq!(lines(&fixture, both("mounted")).await, ["work", "b", "changed"]);
    assert_eq!(read(&work.join("a")), "changed\n");
    assert!(work.join("new").exists());
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_file_in_a_live_volume_appears_in_a_sealed_run() {
    let fixture = Fixture::new().await;
    let (live, copied) = (folder(&fixture, "sockets"), folder(&fixture, "copied"));
    let script = "echo '>> init complete'; until [ -e /live/late ]; do sleep 0.1; done; ls /copied";
    let run = spec(&fixture, "late", script)
        .volume(VolumeSpec::new(&live, "/live").live().read_only())
        .volume(VolumeSpec::new(&copied, "/copied"))
        .sealed();
    let runs = fixture.sandbox.runs();
    runs.run(run, LifecycleHooks::default()).await.expect("a good run");
    let ready = runs.wait_until_ready(&name("late"), LONG).await;
    assert!(ready.expect("logs").is_ready());
    for folder in [&copied, &live] {
        fs::write(folder.join("late"), "").expect("a file");
    }
    let exit = runs.wait_for_exit(&name("late"), LONG).await.expect("an end");
    let seen = super::fixture::all_lines(&fixture, &name("late")).await;
    assert_eq!((exit.code, seen), (0, [">> init complete", "a", "sub"].map(str::to_owned).into()));
    stop(&fixture, "late").await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_over_a_folder_is_visible_sealed_and_mounted() {
    let fixture = Fixture::new().await;
    let (config, other) = (folder(&fixture, "config"), folder(&fixture, "other"));
    let overlaid = |run: &str| {
        spec(&fixture, run, "cat /c/a /c/sub/b /c/deep/a")
            // The file is listed first, and must be visible nevertheless.
            .volume(VolumeSpec::new(other.join("a"), "/c/sub/b").read_only())
            .volume(VolumeSpec::new(&config, "/c"))
            .volume(VolumeSpec::new(&other, "/c/deep"))
    };
    fs::create_dir(config.join("deep")).expect("a folder");
    let expected = ["config", "other", "other"];
    assert_eq!(lines(&fixture, overlaid("over-sealed").sealed()).await, expected);
    assert_eq!(lines(&fixture, overlaid("over-mounted")).await, expected);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_belong_to_the_user_and_image_folders_keep_their_modes() {
    let fixture = Fixture::new().await;
    let work = folder(&fixture, "owned");
    let script =
        "cat /deep/er/w/a; echo x >/deep/er/w/sub/b; stat -c '%u %a' /deep/er/w/a /deep/er /tmp /tmp/w";
    let confined = Isolation { user: Some("1000:1000".to_owned()), ..Isolation::agent() };
    let run = spec(&fixture, "owned", script)
        .isolation(confined)
        .volume(VolumeSpec::new(&work, "/deep/er/w"))
        .volume(VolumeSpec::new(work.join("a"), "/tmp/w"))
        .sealed();
    assert_eq!(lines(&fixture, run).await, ["owned", "1000 600", "1000 755", "0 1777", "1000 600"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_root_receives_copies_before_the_start() {
    let fixture = Fixture::new().await;
    let work = folder(&fixture, "fixed");
    let script = "cat /w/a; touch /w/x 2>/dev/null || echo read-only";
    let run = spec(&fixture, "fixed", script)
        .isolation(Isolation::untrusted())
        .volume(VolumeSpec::new(&work, "/w"))
        .sealed();
    assert_eq!(lines(&fixture, run).await, ["fixed", "read-only"]);
    fixture.close().await;
}
