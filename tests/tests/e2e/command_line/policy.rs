//! `allowlist check` and `allowlist lint`.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use super::project::{Ended, Project};

#[tokio::test(flavor = "multi_thread")]
async fn allowlist_check_and_lint_report_verdicts_and_exit_codes() {
    let project = Project::new();
    project.write(
        ".sandbox/network-allowlist.yaml",
        "domains: [open.test]\nurl_prefixes: [{host: api.test, path: /v1/*, methods: [GET]}]\n",
    );
    let check = |arguments: &[&str]| project.output(&[&["allowlist", "check"], arguments].concat());
    let allowed = check(&["https://open.test/x", "https://api.test/v1/x"]);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert_eq!(
        allowed.stdout,
        "allowed GET https://open.test/x by .sandbox/network-allowlist.yaml:1:11 domains[0]: open.test\n\
         allowed GET https://api.test/v1/x by .sandbox/network-allowlist.yaml:2:16 url_prefixes[0]: api.test/v1/*\n"
    );
    let blocked = check(&["--method", "POST", "--output", "json", "https://api.test/v1/x"]);
    assert_eq!(blocked.code, Some(1));
    let verdict = blocked.json();
    let keys: Vec<&str> = verdict.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["allowed", "message", "method", "reason", "rule", "url"]);
    assert_eq!((&verdict["allowed"], &verdict["reason"]), (&false.into(), &"method".into()));
    assert_eq!(check(&["nonsense"]).code, Some(2));

    // Verdicts that fail to print still count.
    for (urls, code) in
        [(&["https://open.test/", "https://other.test/"][..], 1), (&["https://open.test/"][..], 125)]
    {
        let full = File::create("/dev/full").expect("a device of every kernel");
        let mut command = project.sandbox(&["allowlist", "check"]);
        let status = command.args(urls).stdout(full).status();
        assert_eq!(status.expect("the sandbox command").code(), Some(code), "{urls:?}");
    }

    let mut child = project
        .sandbox(&["allowlist", "check", "--output", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the sandbox command");
    let lines = b"GET https://open.test/\n\nPOST https://api.test/v1/x\nwhat\n";
    child.stdin.take().expect("a pipe").write_all(lines).expect("a reader");
    let ended = Ended::from(child.wait_with_output().expect("our own child"));
    let verdicts: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let reasons: Vec<&Value> = verdicts.iter().map(|verdict| &verdict["reason"]).collect();
    assert_eq!(reasons, [&Value::Null, &"method".into(), &"unreadable".into()]);
    assert_eq!(verdicts[0]["rule"]["kind"], "domain");
    assert_eq!(ended.code, Some(2));

    assert_eq!(project.output(&["allowlist", "lint"]).code, Some(0));
    project.write(".sandbox/network-allowlist.yaml", "domains: ['*']\n");
    let lint = project.output(&["allowlist", "lint"]);
    assert_eq!(lint.code, Some(1));
    assert!(lint.stdout.starts_with("warning: .sandbox/network-allowlist.yaml:1:11: `*` "), "{lint:?}");
}
