//! Clones, fetches and pushes of real git, and requests that git does not make.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::fixture::{Fixture, refs};

const WORK: &str = "git init -q -b main work && cd work && echo one > a && git add . && git commit -qm one";

#[tokio::test(flavor = "multi_thread")]
async fn pushed_commits_are_fetched_again() {
    let fixture = Fixture::new();
    let repository = fixture.gate.init("project", None).await.unwrap();
    let url = fixture.serve(&[&repository]).await;
    // More than git sends at once, so the request has no length.
    let big = "head -c 8000000 /dev/urandom > big && git add . && git commit -qm big";
    fixture.must(&format!("{WORK} && {big} && git push -q {url}/project.git main && git tag -am note v1 && git push -q {url}/project v1")).await;
    for protocol in 0..=2 {
        let clone = format!(
            "git -c protocol.version={protocol} clone -q {url}/project.git c{protocol} && cmp work/big c{protocol}/big"
        );
        fixture.must(&clone).await;
    }
    fixture.must(&format!("git clone -q --depth 1 {url}/project.git shallow && git clone -q --filter=blob:none {url}/project.git partial")).await;
    fixture
        .must(
            "cd shallow && echo two > a && git commit -qam two && git push -q origin HEAD:refs/heads/agent/x",
        )
        .await;
    assert_eq!(
        refs(&fixture, repository.path(), false).await,
        ["refs/heads/agent/x two", "refs/heads/main big", "refs/tags/v1 note"]
    );
    assert!(refs(&fixture, repository.path(), true).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_removed_by_a_push_are_backed_up_out_of_clients_reach() {
    let fixture = Fixture::new();
    let repository = fixture.gate.init("project", None).await.unwrap();
    let url = format!("{}/project.git", fixture.serve(&[&repository]).await);
    fixture.must(&format!("{WORK} && git push -q {url} main HEAD:refs/heads/side && echo two > a && git commit -qam two && git push -q {url} main")).await;
    assert!(refs(&fixture, repository.path(), true).await.is_empty(), "nothing is lost so far");
    fixture
        .must(&format!("cd work && git commit -q --amend -m rewritten && git push -qf {url} main :side"))
        .await;
    let backups = refs(&fixture, repository.path(), true).await;
    let of =
        |line: &String| line.split('/').nth(4).unwrap().to_owned() + " " + line.split(' ').nth(1).unwrap();
    assert_eq!(backups.iter().map(of).collect::<Vec<_>>(), ["main two", "side one"], "{backups:?}");
    assert_eq!(refs(&fixture, repository.path(), false).await, ["refs/heads/main rewritten"]);

    let seen = fixture.must(&format!("git ls-remote {url}")).await;
    assert!(seen.contains("refs/heads/main") && !seen.contains("sandbox"), "{seen}");
    let backup = backups[0].split(' ').next().unwrap();
    for update in [format!(":{backup}"), format!("+HEAD:{backup}"), "HEAD:refs/sandbox/backup/x".to_owned()] {
        assert!(
            !fixture.sh(&format!("cd work && git push -q {url} {update}")).await.status.success(),
            "{update}"
        );
    }
    assert_eq!(refs(&fixture, repository.path(), true).await, backups);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_without_an_old_value_is_refused() {
    let fixture = Fixture::new();
    let repository = fixture.gate.init("project", None).await.unwrap();
    let url = format!("{}/project.git", fixture.serve(&[&repository]).await);
    fixture.must(&format!("{WORK} && git push -q {url} main HEAD:refs/heads/side")).await;
    let zero = "0".repeat(40);
    for old in [&zero, &"1".repeat(40)] {
        let line = format!("{old} {zero} refs/heads/side\\0 report-status");
        let length = line.len() - 1 + 4;
        let push = format!(
            "printf '{length:04x}{line}0000' | curl -s -o out -w '%{{http_code}}' -H 'Content-Type: application/x-git-receive-pack-request' --data-binary @- {url}/git-receive-pack"
        );
        assert_eq!(fixture.must(&push).await, "409", "{old}");
    }
    // The control: git's own way to delete it.
    assert_eq!(refs(&fixture, repository.path(), false).await.len(), 2);
    fixture.must(&format!("git -C work push -q {url} :side")).await;
    assert_eq!(refs(&fixture, repository.path(), false).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_and_user_settings_are_ignored() {
    let fixture = Fixture::new();
    let repository = fixture.gate.init("project", None).await.unwrap();
    let url = format!("{}/project.git", fixture.serve(&[&repository]).await);
    let hook = repository.path().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\ntouch '{}'\nexit 1\n", fixture.path("ran").display())).unwrap();
    fixture.must(&format!("chmod +x '{}'", hook.display())).await;
    fixture.must(&format!("{WORK} && git push -q {url} main")).await;
    assert!(!fixture.path("ran").exists());
    // The control: git without the server runs it.
    let direct = format!("git -C work push -q '{}' HEAD:other", repository.path().display());
    assert!(!fixture.sh(&direct).await.status.success() && fixture.path("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_token_gives_access_and_only_to_served_repositories() {
    let fixture = Fixture::new();
    let [served, other] =
        [fixture.gate.init("served", None).await.unwrap(), fixture.gate.init("other", None).await.unwrap()];
    let url = fixture.serve(&[&served]).await;
    let (_, host) = url.rsplit_once('@').unwrap();
    let others = fixture.serve(&[&other]).await;
    let wrong = others.rsplit_once('@').unwrap().0;
    let refs = "info/refs?service=git-upload-pack";
    for (request, expected) in [
        (format!("{url}/served.git/{refs}"), "200"),
        (format!("{url}/served/{refs}"), "200"),
        (format!("http://{host}/served.git/{refs}"), "401"),
        (format!("{wrong}@{host}/served.git/{refs}"), "401"),
        (format!("http://git:@{host}/served.git/{refs}"), "401"),
        (format!("http://{host}/other.git/{refs}"), "401"),
        (format!("{url}/other.git/{refs}"), "404"),
        (format!("{url}/missing.git/{refs}"), "404"),
        (format!("{url}/served.git/HEAD"), "404"),
        (format!("{url}/served.git/info/refs"), "404"),
        (format!("{url}/served.git/info/refs?service=git-upload-archive"), "404"),
        (format!("{url}/served.git/config"), "404"),
        (format!("{url}/served.git/../other.git/{refs}"), "404"),
        (format!("{url}/served.git%2f..%2fother.git/{refs}"), "404"),
        (format!("{url}/.new-0/{refs}"), "404"),
        (format!("{url}/"), "404"),
    ] {
        let got = fixture.must(&format!("curl -s -o out -w '%{{http_code}}' --path-as-is '{request}'")).await;
        assert_eq!(got, expected, "{request}");
    }
}

/// Requests that are not git pushes change nothing, and the server continues.
#[tokio::test(flavor = "multi_thread")]
async fn half_and_odd_pushes_change_nothing() {
    let fixture = Fixture::new();
    let repository = fixture.gate.init("project", None).await.unwrap();
    let url = fixture.serve(&[&repository]).await;
    fixture.must(&format!("{WORK} && git push -q {url}/project.git main")).await;
    let (credentials, host) = url.strip_prefix("http://").unwrap().split_once('@').unwrap();
    let basic = BASE64.encode(credentials);
    let id = fixture.must("git -C work rev-parse HEAD").await;
    let zero = "0".repeat(40);
    let line = format!("{zero} {id} refs/heads/x\0 report-status");
    let command = format!("{:04x}{line}0000", line.len() + 4);
    for (headers, body) in [
        // The header announces more bytes than follow.
        ("Content-Length: 100000", command.as_str()),
        ("Transfer-Encoding: chunked", "10\r\n0094"),
        ("Content-Length: 4", "PACK"),
        ("Content-Length: 4\r\nContent-Encoding: gzip", "0000"),
        ("Content-Length: 4", "0001"),
    ] {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let head = format!(
            "POST /project.git/git-receive-pack HTTP/1.1\r\nHost: gate\r\nAuthorization: Basic {basic}\r\nContent-Type: application/x-git-receive-pack-request\r\n{headers}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
    }
    assert_eq!(refs(&fixture, repository.path(), false).await, ["refs/heads/main one"]);
    assert!(refs(&fixture, repository.path(), true).await.is_empty());
    fixture.must(&format!("git clone -q {url}/project.git again")).await;
}

/// The data that git holds in memory is bounded; the controls are a smaller push, and one that is
/// as short as it announces.
#[tokio::test(flavor = "multi_thread")]
async fn push_that_exceeds_gits_memory_is_refused() {
    let fixture = Fixture::new();
    let repository = fixture.gate.init("project", None).await.unwrap();
    let url = format!("{}/project.git", fixture.serve(&[&repository]).await);
    fixture.must(&format!("{WORK} && git push -q {url} main")).await;
    let smaller = "cd work && id=$({ git cat-file commit HEAD; head -c 10000000 /dev/zero | tr '\\0' x; } | git hash-object -t commit -w --stdin)";
    fixture.must(&format!("{smaller} && git push -q {url} $id:refs/heads/smaller")).await;
    // Git allocates the announced size of an object before it reads the object.
    let (zero, id) = ("0".repeat(40), fixture.must("git -C work rev-parse HEAD").await);
    let line = format!("{zero} {id} refs/heads/larger\0 report-status side-band-64k");
    for (bytes, is_held) in [(1_000_000_u32, true), (560_000_000, false)] {
        let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
        body.extend_from_slice(b"PACK\0\0\0\x02\0\0\0\x01");
        // A commit: four bits of its size, then seven at a time.
        body.push(0x90 | u8::try_from(bytes & 0xf).unwrap());
        let rest = [4, 11, 18, 25].map(|shift| u8::try_from(bytes >> shift & 0x7f).unwrap());
        body.extend([rest[0] | 0x80, rest[1] | 0x80, rest[2] | 0x80, rest[3]]);
        std::fs::write(fixture.path("larger"), body).unwrap();
        let answer = fixture.must(&format!("curl -s -H 'Content-Type: application/x-git-receive-pack-request' --data-binary @larger {url}/git-receive-pack | tr -d '\\0'")).await;
        assert!(answer.contains("ng refs/heads/larger"), "{answer}");
        assert_eq!(answer.contains("Out of memory"), !is_held, "{answer}");
    }
    assert_eq!(refs(&fixture, repository.path(), false).await.len(), 2, "the server goes on");
}

/// One push must not remove the backup of another. Of two in one second, the second deletes the ref
/// that the first leaves unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn each_push_has_backups_of_its_own() {
    let fixture = Fixture::new();
    let repository = fixture.gate.init("project", None).await.unwrap();
    let url = format!("{}/project.git", fixture.serve(&[&repository]).await);
    fixture.must(&format!(
        "{WORK} && git push -q {url} main HEAD:refs/heads/side && git tag -am one v1 && git push -q {url} v1"
    ))
    .await;
    let id = fixture.must("git -C work rev-parse HEAD").await;
    let same = format!("{id} {id} refs/heads/side\\0 report-status");
    let length = same.len() - 1 + 4;
    let touch = format!(
        "printf '{length:04x}{same}0000' | curl -s -o out -H 'Content-Type: application/x-git-receive-pack-request' --data-binary @- {url}/git-receive-pack"
    );
    fixture
        .must(&format!("for i in 1 2 3 4 5; do {touch} & done; git -C work push -q {url} :side; wait"))
        .await;
    let backups = refs(&fixture, repository.path(), true).await;
    // A push that changed nothing keeps its backup too if the branch is gone when it ends.
    assert!(!backups.is_empty(), "the deletion had no backup");
    assert!(backups.iter().all(|backup| backup.contains("/heads/side/")), "{backups:?}");
    // A replaced tag is kept, though its commit still exists.
    fixture.must(&format!("git -C work tag -fam two v1 && git -C work push -qf {url} v1")).await;
    let backups = refs(&fixture, repository.path(), true).await;
    assert!(
        backups.iter().any(|backup| backup.contains("/tags/v1/") && backup.ends_with(" one")),
        "{backups:?}"
    );
    // A wrong old value does not lead to a backup.
    let zero = "0".repeat(40);
    let stale = format!("{id} {zero} refs/heads/other\\0 report-status");
    let length = stale.len() - 1 + 4;
    let push = format!(
        "printf '{length:04x}{stale}0000' | curl -s -o out -w '%{{http_code}}' -H 'Content-Type: application/x-git-receive-pack-request' --data-binary @- {url}/git-receive-pack"
    );
    assert_eq!(fixture.must(&push).await, "409");
    assert_eq!(refs(&fixture, repository.path(), true).await, backups);
}

/// The programs that git itself starts end too.
#[tokio::test(flavor = "multi_thread")]
async fn disconnected_client_leaves_nothing_running() {
    let fixture = Fixture::new();
    let repository = fixture.gate.init("project", None).await.unwrap();
    let url = format!("{}/project.git", fixture.serve(&[&repository]).await);
    let big = "head -c 30000000 /dev/urandom > big && git add . && git commit -qm big";
    fixture.must(&format!("{WORK} && {big} && git push -q {url} main")).await;
    let id = fixture.must("git -C work rev-parse HEAD").await;
    let want = format!("want {id} side-band-64k ofs-delta\\n");
    let length = want.len() - 1 + 4;
    let body = format!("printf '{length:04x}{want}00000009done\\n'");
    let clone = format!(
        "{body} | curl -s --limit-rate 20k -m 2 -o out -H 'Content-Type: application/x-git-upload-pack-request' --data-binary @- {url}/git-upload-pack"
    );
    for _ in 0..3 {
        assert!(!fixture.sh(&clone).await.status.success(), "it was cut off");
    }
    // A process that works on this repository has its folder as working directory.
    let path = repository.path().display();
    let running = format!(
        "for p in /proc/[0-9]*; do test \"$(readlink $p/cwd)\" = '{path}' && cat $p/comm; done; true"
    );
    let began = std::time::Instant::now();
    loop {
        let left = fixture.must(&running).await;
        if left.is_empty() {
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "{left}");
        // tidy: sleep: there is no event for the end of a process that is not our child.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
