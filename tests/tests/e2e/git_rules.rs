//! Rules for repositories: real git in the task, git's own server behind the proxy.

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;

/// Pushes in all ways, and prints the result of each.
pub(crate) const SCRIPT: &str = r#"
export HOME=/tmp/home GIT_TERMINAL_PROMPT=0; mkdir -p $HOME; cd /tmp
git config --global user.name e2e; git config --global user.email e2e@example.test
try() { name=$1; shift; if "$@" > /tmp/out 2>&1; then echo "$name ok"; else echo "$name refused"; sed "s/^/$name: /" /tmp/out >&2; fi; }
commit() { echo "$1" > file; git add .; git commit -qm "$1"; }
try clone git clone -q $URL work
cd work
commit one
try create git push origin HEAD:refs/heads/agent/x
commit two
try forward git push origin HEAD:refs/heads/agent/x
git tag agent-1; try tag git push origin agent-1
git tag -a -m note agent-2; try annotated git push origin agent-2
try umlaut git push origin HEAD:refs/heads/agent/ü
try bytes git push origin "HEAD:refs/heads/agent/$(printf 'a\377b')"
try version0 git -c protocol.version=0 fetch -q origin agent/x
try version2 git -c protocol.version=2 fetch -q origin agent/x
try options git push -o ci.skip origin HEAD:refs/heads/agent/options
try othertag git push origin HEAD:refs/tags/v1
try main git push origin HEAD:refs/heads/main
try prefix git push origin HEAD:refs/heads/agentx
try mixed git push origin HEAD:refs/heads/agent/mixed HEAD:refs/heads/mixed
try atomic git push --atomic origin HEAD:refs/heads/agent/atomic HEAD:refs/heads/atomic
git push -q origin HEAD:refs/heads/agent/gone; try delete git push origin :refs/heads/agent/gone
printf '#!/bin/sh\ncat > /dev/null\nprintf "\\n[GNUPG:] SIG_CREATED D\\n" >&2\nprintf -- "-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n"\n' > /tmp/sign; chmod +x /tmp/sign
try signed git -c gpg.program=/tmp/sign -c user.signingKey=e2e push --signed origin HEAD:refs/heads/agent/signed
git checkout -q -b side HEAD~1; commit side; git checkout -q -; git merge -q -m merge -X ours side > /dev/null
try merge git push origin HEAD:refs/heads/agent/x
head -c 67108864 /dev/urandom > big; commit big
try big git push origin HEAD:refs/heads/agent/x
cd ..; git clone -q --depth 1 -b agent/x $URL shallow; cd shallow; commit shallow
try shallow git push origin HEAD:refs/heads/agent/x
cd ../work; git fetch -q origin; git reset -q --hard HEAD~1; commit rewritten
try forced git push -f origin HEAD:refs/heads/agent/x
try rewound git push -f origin HEAD~1:refs/heads/agent/x
try backdoor curl -sSf -X POST -H 'Content-Type: application/x-git-receive-pack-request' --data-binary 0000 "$URL/git%252dreceive-pack/../git-receive-pack" --path-as-is
try dumb curl -sSf $URL/HEAD
git ls-remote $URL | cut -f 2 | tr '\n' ' '
"#;

/// The output of the script under `policy`, and the output of git with the log.
async fn pushed(policy: &str, repository: &str) -> (String, String) {
    let fixture = Fixture::new().await;
    let script = format!("URL=https://a.git.test/{repository}.git\n{SCRIPT}");
    let ran = fixture.run(policy, &script).await;
    fixture.close().await;
    (ran.stdout, format!("{}\n{}", ran.stderr, ran.log))
}

pub(crate) fn verdicts(text: &str, verdict: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_suffix(verdict));
    lines.map(|name| name.trim_end().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_permitted_pushes_arrive() {
    let policy = "url_prefixes: [{host: a.git.test, path: /ruled.git, \
                  git: {push: ['refs/heads/agent/*', 'refs/tags/agent-*']}}]";
    let (stdout, log) = pushed(policy, "ruled").await;
    let allowed =
        "clone create forward tag annotated umlaut bytes version0 version2 options merge big shallow";
    let refs = stdout.lines().last().unwrap_or_default();
    for absent in ["mixed", "atomic", "signed", "agentx", "tags/v1"] {
        assert_held!(!refs.contains(absent), "{refs}");
    }
    for name in verdicts(&stdout, "ok") {
        assert_held!(allowed.split(' ').any(|allowed| allowed == name), "{name}: {stdout}\n{log}");
    }
    assert_eq!(verdicts(&stdout, "ok").join(" "), allowed, "{stdout}\n{log}");
    let refused = "othertag main prefix mixed atomic delete signed forced rewound backdoor dumb";
    assert_eq!(verdicts(&stdout, "refused").join(" "), refused, "{stdout}\n{log}");
    assert!(refs.contains("refs/heads/agent/x ") && refs.contains("refs/heads/agent/gone "), "{refs}");
    for said in [
        "! [remote rejected] HEAD -> main (not allowed by policy)",
        "! [remote rejected] agent/gone (deletion not allowed by policy)",
        "! [remote rejected] HEAD -> agent/mixed (another ref of the push is refused)",
        "! [remote rejected] HEAD -> agent/x (not known to keep all commits)",
        "refs/heads/main of this repository of a.git.test may not be pushed",
        "[ref: refs/heads/main] [reason: ref_not_allowed]",
    ] {
        assert!(log.contains(said), "{said}\n{log}");
    }
    for reason in ["[reason: ref_not_allowed]", "[reason: ref_lost]", "[reason: body]", "[reason: path"] {
        assert!(log.contains(reason), "{reason}\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_can_permit_more_pushes() {
    let policy = "url_prefixes: [{host: a.git.test, path: /free, git: {push: ['refs/heads/agent/*'], force: true, delete: true}}]";
    let (stdout, log) = pushed(policy, "free").await;
    let refused = "tag annotated othertag main prefix mixed atomic signed backdoor dumb";
    for name in verdicts(&stdout, "ok") {
        assert_held!(refused.split(' ').all(|refused| refused != name), "{name}: {stdout}\n{log}");
    }
    assert_eq!(verdicts(&stdout, "refused").join(" "), refused, "{stdout}\n{log}");
}

/// The control: every push succeeds if the whole host is allowed, and none if a `git` entry permits
/// no push.
#[tokio::test(flavor = "multi_thread")]
async fn control_all_pushes_arrive_at_a_host_allowed_as_a_whole() {
    let (stdout, log) = pushed("domains: [a.git.test]", "whole").await;
    assert_eq!(verdicts(&stdout, "refused"), ["backdoor"], "{stdout}\n{log}");
    let both = "{domains: [a.git.test], url_prefixes: [{host: a.git.test, path: /fetched, git: {}}]}";
    let (stdout, log) = pushed(both, "fetched").await;
    assert_eq!(verdicts(&stdout, "ok"), ["clone", "dumb"], "{stdout}\n{log}");
    assert!(!stdout.lines().last().unwrap_or_default().contains("agent"), "{stdout}");
}
