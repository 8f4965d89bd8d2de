//! From an empty policy to a sufficient one: `--audit`, `allowlist learn`, `packages`, `why`,
//! `allow`, `deny` and `simulate`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e_tests::setting::Setting;
use serde_json::Value;

use super::agent;
use super::project::{Ended, Project, assert_nothing_left, config};

/// Installs a package with each of the most popular clients, from repositories that contain one.
const INSTALL: &str = "set -e; export HOME=/tmp; cd /tmp
pip install -q --break-system-packages --disable-pip-version-check --index-url https://pypi.test/simple --target /tmp/site demo
PYTHONPATH=/tmp/site python3 -c 'import demo; print(demo.GREETING)'
mkdir project && cd project
echo '{\"dependencies\": {\"demo\": \"1.0.0\"}}' > package.json
echo '{\"lockfileVersion\": 3, \"packages\": {\"\": {\"dependencies\": {\"demo\": \"1.0.0\"}}, \"node_modules/demo\": {\"version\": \"1.0.0\", \"resolved\": \"https://npm.test/demo/-/demo-1.0.0.tgz\"}}}' > package-lock.json
node /npm/bin/npm-cli.js ci --no-audit --registry=https://npm.test/ > /dev/null
node -e \"console.log(require('demo'))\"
mkdir -p src .cargo
printf '[package]\\nname = \"mine\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[dependencies]\\ndemo = \"1\"\\n' > Cargo.toml
printf '[source.crates-io]\\nreplace-with = \"stand-in\"\\n[source.stand-in]\\nregistry = \"sparse+https://cargo.test/index/\"\\n' > .cargo/config.toml
touch src/lib.rs
CARGO_HOME=/tmp/cargo /workspace/cargo-program vendor -q --respect-source-config /tmp/vendor > /dev/null
echo $(ls /tmp/vendor) from cargo
echo 'deb [trusted=yes] http://apt.test/debian stable main' > /etc/apt/sources.list
rm -rf /etc/apt/sources.list.d
apt-get -qq -o APT::Sandbox::User=root update
apt-get -qq -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 install -y demo > /dev/null
cat /usr/share/demo/greeting
printf 'module mine\\n\\ngo 1.19\\n\\nrequire (\\n\\tdemo.test/greeting v1.0.0\\n\\tdemo.test/name v1.0.0\\n\\tdemo.test/place v1.0.0\\n\\tdemo.test/time v1.0.0\\n)\\n' > go.mod
export GOROOT=/go GOPROXY=https://go.test GOSUMDB=off GOFLAGS=-modcacherw GOMODCACHE=/tmp/modules
/go/bin/go mod download
grep -o 'demo from go' /tmp/modules/demo.test/greeting@v1.0.0/demo.go
";

const INSTALLED: &str = "demo from pip\ndemo from npm\ndemo from cargo\ndemo from apt\ndemo from go\n";

/// A project with the clients, without an allowlist, whose other files are trusted.
struct Clients {
    project: Project,
}

impl Clients {
    fn new(prefix: &str) -> Self {
        let project = Project::with_prefix(prefix);
        fs::remove_file(project.path().join(".sandbox/network-allowlist.yaml")).expect("a file");
        succeed(project.wary(&["trust"]));
        // Fetching needs no compiler, only the file `cargo`.
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("a compiler");
        let sysroot = String::from_utf8(sysroot.stdout).expect("a path");
        let cargo = Path::new(sysroot.trim()).join("bin/cargo");
        fs::copy(cargo, project.path().join("cargo-program")).expect("cargo");
        Self { project }
    }

    /// Runs `script` with only the files that the user trusted.
    fn run(&self, flags: &[&str], script: &str) -> Ended {
        let setting = Setting::of_this_run();
        let npm = format!("{}:/npm:ro", setting.npm.display());
        let go = format!("{}:/go:ro", setting.go.display());
        let mounts =
            ["--image", &setting.clients_image, "--mount", &npm, "--mount", &go, "--allow-system-mounts"];
        let command = ["--", "bash", "-c", script];
        let arguments = [&["run"], flags, &mounts, &command].concat();
        self.project.wary(&arguments).output().expect("the sandbox command").into()
    }
}

fn succeed(mut command: Command) -> String {
    let ended = Ended::from(command.output().expect("the sandbox command"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn package_clients_work_with_rules_learnt_from_an_audit() {
    let prefix = "e2e-cli-learn";
    let clients = Clients::new(prefix);
    let project = &clients.project;
    let policy = project.path().join(".sandbox/network-allowlist.yaml");

    // The control: without an audit, nothing is reached.
    let refused = clients.run(&[], INSTALL);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(!refused.stdout.contains("demo from"), "{refused:?}");

    let audited = clients.run(&["--audit"], INSTALL);
    assert_eq!((audited.code, audited.stdout.as_str()), (Some(0), INSTALLED), "{audited:?}");
    let log = succeed(project.wary(&["logs"]));
    assert!(log.contains("\nPOLICY down -> down until 20"), "{log}");
    assert!(log.contains("demo-1.0.0.tgz -> 200 [shield: down]"), "{log}");

    // Without a terminal and without --yes the policy is only shown.
    let shown = succeed(project.wary(&["allowlist", "learn"]));
    assert!(shown.contains("+  - {host: cargo.test, ") && !policy.exists(), "{shown}");
    succeed(project.wary(&["allowlist", "learn", "--yes"]));
    let text = fs::read_to_string(&policy).expect("a policy");
    let rules = text.lines().filter(|line| line.starts_with("  - ")).count();
    assert!((4..=10).contains(&rules), "{text}");

    let installed = clients.run(&[], INSTALL);
    assert_eq!((installed.code, installed.stdout.as_str()), (Some(0), INSTALLED), "{installed:?}\n{text}");
    let again = json(project, &["allowlist", "learn", "--output", "json"]);
    assert_eq!(again["rules"], Value::Array(Vec::new()), "{again}");

    // It allows only the observed requests.
    let other = clients.run(&[], "curl -s -o /dev/null -w '%{http_code}' https://npm.test/other");
    assert_eq!(other.stdout, "403", "{other:?}\n{text}");
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_turn_passes_with_rules_learnt_from_an_audit() {
    let project = agent::project();
    let policy = ".sandbox/network-allowlist.yaml";
    project.write(policy, "domains: []\n");
    let turn = |flags: &[&str]| agent::agent(&project, &[flags, &["remember the word heliotrope"]].concat());
    // The control.
    let refused = turn(&[]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let audited = turn(&["--audit"]);
    assert_eq!(audited.code, Some(0), "{audited:?}");
    let learnt = project.output(&["allowlist", "learn", "--yes"]);
    assert_eq!(learnt.code, Some(0), "{learnt:?}");
    let text = fs::read_to_string(project.path().join(policy)).expect("a policy");
    assert!(text.lines().filter(|line| line.starts_with("  - ")).count() <= 3, "{text}");
    let passed = turn(&[]);
    assert_eq!(passed.code, Some(0), "{passed:?}\n{text}");
    assert!(passed.stdout.contains("heliotrope"), "{passed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_opens_only_public_hosts() {
    let prefix = "e2e-cli-audit";
    let clients = Clients::new(prefix);
    let project = &clients.project;
    // Requests to addresses go through the proxy: there is no direct route.
    let ask = "get() { curl -s -o /dev/null -w '%{http_code} ' \"$@\"; }; get https://open.test/; get http://private.test/; \
               get -H 'Host: 169.254.169.254' http://open.test/latest/; get -H 'Host: 10.0.0.1' http://open.test/";
    let audited = clients.run(&["--audit"], ask);
    assert!(audited.stdout.starts_with("200 403 403 403 "), "{audited:?}");
    assert!(audited.stderr.contains("--audit: the task reaches any public host"), "{audited:?}");
    // The control for the learnt rules: these requests were made, and refused.
    let log = succeed(project.wary(&["logs", "--blocked"]));
    assert!(log.contains("http://169.254.169.254/latest/ -> 403 [shield: down] [reason: address]"), "{log}");
    let learnt = json(project, &["allowlist", "learn", "--output", "json", "--yes"]);
    assert_eq!(hosts(&learnt), ["open.test"], "{learnt}");

    // Without an audit the reason is a missing rule; still no rule is learnt for addresses.
    let plain = clients.run(
        &["--allow", "other.test"],
        &format!("{ask}; curl -s https://other.test/; curl -s https://later.test/a"),
    );
    assert!(plain.stdout.starts_with("200 403 403 403 "), "{plain:?}");
    assert!(plain.stdout.contains("hello from other.test"), "{plain:?}");
    let learnt = json(project, &["allowlist", "learn", "--output", "json"]);
    assert_eq!(hosts(&learnt), ["later.test", "other.test", "private.test"], "{learnt}");
    let left_out: Vec<&str> = learnt["left_out"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|left| left["url"].as_str())
        .collect();
    assert_eq!(left_out, ["http://169.254.169.254/latest/", "http://10.0.0.1/"], "{learnt}");

    let why = succeed(project.wary(&["allowlist", "why"]));
    assert!(
        why.contains("1 x GET https://later.test/a [reason: host]\n        later.test is not allowed"),
        "{why}"
    );
    project.write("next.yaml", "domains: [later.test]\n");
    let simulated =
        Ended::from(project.wary(&["allowlist", "simulate", "next.yaml"]).output().expect("the command"));
    assert_eq!(simulated.code, Some(1), "{simulated:?}");
    assert!(simulated.stdout.contains("now allowed 1 x GET https://later.test/a"), "{simulated:?}");
    assert!(simulated.stdout.contains("now BLOCKED 1 x GET https://open.test/"), "{simulated:?}");
    let diff = |old, new| {
        let diff = project.wary(&["allowlist", "diff", old, new]).output();
        Ended::from(diff.expect("the command"))
    };
    let different = diff(".sandbox/network-allowlist.yaml", "next.yaml");
    assert_eq!(different.code, Some(1), "{different:?}");
    let allowed = "newly allowed GET https://later.test/\n              by domains[0]: later.test\n";
    assert!(different.stdout.contains(allowed), "{different:?}");
    assert!(different.stdout.contains("newly BLOCKED GET https://open.test/"), "{different:?}");
    let same = diff("next.yaml", "next.yaml");
    assert_eq!((same.code, same.stdout.as_str()), (Some(0), ""), "{same:?}");
    let missing = diff("next.yaml", "missing.yaml");
    assert!(missing.code == Some(125) && missing.stderr.contains("does not exist"), "{missing:?}");
    assert_nothing_left(prefix).await;
}

/// A task chooses the names in its log.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_in_a_log_get_rules_only_if_the_user_names_them() {
    let prefix = "e2e-cli-hostile-log";
    let clients = Clients::new(prefix);
    let project = &clients.project;
    let policy = project.path().join(".sandbox/network-allowlist.yaml");
    let text = || fs::read_to_string(&policy).expect("a policy");
    let urls = "{ seq 300 | sed 's|.*|x&.flood.test|'; printf '%s\\n' xn--bcher-kva.test api.githud.com first.test; } \
                | sed 's|.*|url=http://&/\\noutput=/dev/null|' > /tmp/urls; curl -s -w '%{http_code}\\n' -K /tmp/urls | sort | uniq -c";
    let flooded = clients.run(&[], urls);
    assert_eq!(flooded.stdout.trim(), "303 403", "{flooded:?}");
    let second = clients.run(&[], "curl -s -o /dev/null -w '%{http_code}' http://later.test/");
    assert_eq!(second.stdout, "403", "{second:?}");

    // Without a name, the newest run counts; its folder's name and that of the other follow.
    let newest = json(project, &["allowlist", "learn", "--output", "json"]);
    assert_eq!(hosts(&newest), ["later.test"], "{newest}");
    project.write("next.yaml", "domains: [first.test, later.test]\n");
    let simulated = Ended::from(
        project
            .wary(&["allowlist", "simulate", "--all", "--output", "json", "next.yaml"])
            .output()
            .expect("the command"),
    );
    let simulated: Value = serde_json::from_str(&simulated.stdout).expect("JSON");
    let runs: Vec<&str> = simulated["changes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|change| change["run"].as_str())
        .collect();
    let [first, later] = runs[..] else { panic!("{simulated}") };
    let one = Ended::from(
        project.wary(&["allowlist", "simulate", "next.yaml", first]).output().expect("the command"),
    );
    assert_eq!(one.stdout.lines().count(), 1, "{one:?}");

    let learn = ["allowlist", "learn", "--yes", first, later];
    let shown = Ended::from(project.wary(&learn).output().expect("the sandbox command"));
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stderr.contains(" and 284 more: more than 8 new hosts under one domain"), "{shown:?}");
    for hostile in ["flood.test", "xn--", "githud"] {
        assert!(!text().contains(hostile) && !shown.stdout.contains(hostile), "{shown:?}\n{}", text());
        assert!(shown.stderr.contains(hostile), "{shown:?}");
    }
    assert!(text().contains("host: first.test") && text().contains("host: later.test"), "{}", text());

    // The control: rules for the same log, with names from the user.
    let named = ["--with", "*.flood.test", "--with", "api.githud.com"];
    let report = json(project, &[&learn[..], &named, &["--output", "json"]].concat());
    assert_eq!(hosts(&report).len(), 301, "{report}");
    assert_eq!(report["doubtful"][0]["hosts"][0], "xn--bcher-kva.test", "{report}");
    assert_eq!(text().matches(".flood.test").count(), 300);
    assert!(text().contains("api.githud.com") && !text().contains("xn--"), "{}", text());
    assert_nothing_left(prefix).await;
}

fn json(project: &Project, arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(project.wary(arguments))).expect("JSON")
}

/// The hosts of the learnt rules.
fn hosts(learnt: &Value) -> Vec<&str> {
    let rules = learnt["rules"].as_array().expect("a list");
    rules.iter().filter_map(|rule| rule.pointer("/rule/host")?.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_request_is_refused_whatever_allows_it() {
    let prefix = "e2e-cli-denied";
    let clients = Clients::new(prefix);
    let project = &clients.project;
    let policy = ".sandbox/network-allowlist.yaml";
    let ask = "get() { curl -s -o /dev/null -w '%{http_code} ' --path-as-is \"$@\"; }; get https://open.test/; \
               get https://other.test/x; get https://other.test/ADMIN%2Fx; get https://other.test//admin";
    let allowed = "domains: [open.test, other.test]\n";
    for (deny, flags, expected) in [
        // The control.
        ("", &[] as &[&str], "200 200 200 200 "),
        ("deny: [open.test, {host: other.test, path: '/admin*'}]\n", &[], "403 200 403 403 "),
        ("deny: [open.test, {host: other.test, path: '/admin*'}]\n", &["--audit"], "403 200 403 403 "),
        ("deny: ['*.test']\n", &["--allow", "open.test"], "403 403 403 403 "),
    ] {
        project.write(policy, &format!("{allowed}{deny}"));
        succeed(project.wary(&["trust"]));
        let ended = clients.run(flags, ask);
        assert_eq!(ended.stdout, expected, "{deny} {flags:?}: {ended:?}");
    }
    let log = succeed(project.wary(&["logs", "--blocked"]));
    assert!(log.contains("https://open.test/ -> 403 [reason: denied]"), "{log}");
    // No rule is proposed for it, and the explanation names the line.
    let learnt = json(project, &["allowlist", "learn", "--output", "json"]);
    assert_eq!(hosts(&learnt), [""; 0], "{learnt}");
    let why = Ended::from(
        project.wary(&["allowlist", "why", "https://open.test/"]).output().expect("the sandbox command"),
    );
    assert_eq!(why.code, Some(1), "{why:?}");
    let named = ".sandbox/network-allowlist.yaml:2:8 a rule of `deny` forbids this request to open.test: to allow it, \
                 remove `deny[0]` in .sandbox/network-allowlist.yaml";
    assert!(why.stdout.contains(named), "{why:?}");
    assert!(
        why.stdout.contains("near it: .sandbox/network-allowlist.yaml:1:11 domains[0]: open.test"),
        "{why:?}"
    );
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outer_policy_limits_whatever_a_project_allows() {
    let prefix = "e2e-cli-outer";
    let project = Project::with_prefix(prefix);
    project.write(".sandbox/network-allowlist.yaml", "domains: [open.test, other.test]\n");
    let user = tempfile::tempdir().expect("a folder");
    let file = user.path().join("sandbox/policy.yaml");
    fs::create_dir(user.path().join("sandbox")).expect("a folder");
    let sandbox = |arguments: &[&str]| -> Ended {
        let mut command = project.sandbox(arguments);
        command.env("XDG_CONFIG_HOME", user.path()).output().expect("the sandbox command").into()
    };
    let ask = "for url in open.test other.test third.test; do curl -s -o /dev/null -w '%{http_code} ' https://$url/; done";
    let run = |flags: &[&str]| sandbox(&[&["run"], flags, &["--", "bash", "-c", ask]].concat());
    let everything = ["--allow", "*"];
    // The control.
    assert_eq!(run(&everything).stdout, "200 200 200 ");
    fs::write(&file, "domains: ['*']\ndeny: [third.test, other.test]\n").expect("a file");
    for flags in [&[] as &[&str], &everything, &["--audit"]] {
        let ended = run(flags);
        assert_eq!(ended.stdout, "200 403 403 ", "{flags:?}: {ended:?}");
    }
    let log = sandbox(&["logs", "--blocked"]).stdout;
    assert!(log.contains("https://other.test/ -> 403 [reason: outer_policy]"), "{log}");
    let learnt = sandbox(&["allowlist", "learn", "--output", "json"]).json();
    assert_eq!(hosts(&learnt), [""; 0], "{learnt}");
    let why = sandbox(&["allowlist", "check", "--output", "json", "https://other.test/"]);
    assert_eq!(
        (why.code, &why.json()["document"]),
        (Some(1), &"$XDG_CONFIG_HOME/sandbox/policy.yaml".into())
    );
    let allow = sandbox(&["allowlist", "allow", "third.test"]);
    assert!(allow.stdout.contains("still denied, in whole or in part, by $XDG_CONFIG_HOME"), "{allow:?}");

    // A run keeps it, whatever its policy becomes.
    let script = "echo ready; until [ -e /workspace/go ]; do sleep 0.1; done; ".to_owned() + ask;
    let mut command = project.sandbox(&["run", "--", "bash", "-c", &script]);
    let mut running = command
        .env("XDG_CONFIG_HOME", user.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the sandbox command");
    let mut stdout = BufReader::new(running.stdout.take().expect("a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("output");
    fs::remove_file(&file).expect("a file");
    project.write("next.yaml", "domains: ['*']\n");
    for arguments in [&["policy", "set", "next.yaml"], &["policy", "down", "--for=5m"] as &[&str]] {
        assert_eq!(sandbox(arguments).code, Some(0), "{arguments:?}");
    }
    assert!(sandbox(&["policy", "show"]).stdout.contains("Within   $XDG_CONFIG_HOME/sandbox/policy.yaml"));
    project.write("go", "");
    line.clear();
    stdout.read_line(&mut line).expect("output");
    assert_eq!(line, "200 403 403 ");
    assert!(running.wait().expect("our own child").success());

    // What it does not limit is refused, and so is a file that others could have written.
    fs::write(&file, "domains: ['*']\n").expect("a file");
    project.append(".sandbox/sandbox.yaml", "network_sandbox: false\n");
    run(&[]).fails(125, "which $XDG_CONFIG_HOME/sandbox/policy.yaml does not permit");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("a file");
    run(&[]).fails(125, "may have been written by another user");
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_of_the_machine_limits_every_user() {
    let project = Project::new();
    project.write(".sandbox/network-allowlist.yaml", "domains: [open.test, other.test]\n");
    project.write("machine.yaml", "domains: [open.test]\n");
    // In mounts of its own, since the file is one of the machine's.
    let script = "mkdir -p \"$1/upper/sandbox\" && cp machine.yaml \"$1/upper/sandbox/policy.yaml\" && \
                  mount -t overlay overlay -o \"lowerdir=$1/upper:/etc\" /etc && shift && exec \"$@\"";
    let scratch = tempfile::tempdir().expect("a folder");
    let check = project.wary(&["allowlist", "check", "https://open.test/", "https://other.test/"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(scratch.path());
    command.arg(check.get_program()).args(check.get_args());
    let envs = check.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)));
    for (name, value) in envs {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let ended = Ended::from(command.current_dir(project.path()).output().expect("unshare"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.starts_with("allowed GET https://open.test/ by .sandbox/"), "{ended:?}");
    assert!(ended.stdout.contains("refused by /etc/sandbox/policy.yaml: "), "{ended:?}");
    // The control: without it.
    assert_eq!(project.output(&["allowlist", "check", "https://other.test/"]).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn allow_and_deny_edit_the_policy_in_place() {
    let project = Project::new();
    let policy = ".sandbox/network-allowlist.yaml";
    let text = || fs::read_to_string(project.path().join(policy)).expect("a policy");
    project.write(policy, "# ours\ndomains:\n  - open.test  # for all\n");
    succeed(project.wary(&["trust"]));
    succeed(project.wary(&["allowlist", "allow", "GET", "https://api.test/v1?x=1"]));
    succeed(project.wary(&["allowlist", "allow", "*.docs.test/guide/*"]));
    let expected = "# ours\ndomains:\n  - open.test  # for all\nurl_prefixes:\n  - {host: api.test, path: \"/v1[?]x=1\", methods: [GET]}\n  \
                    - {host: \"*.docs.test\", path: \"/guide/*\"}\n";
    assert_eq!(text(), expected);
    let known = succeed(project.wary(&["allowlist", "allow", "open.test/x"]));
    assert_eq!((known.as_str(), text().as_str()), ("already allowed by domains[0]: open.test\n", expected));

    // Changes of the command keep the trust in the file; those of others do not.
    let trusted = Ended::from(project.wary(&["run", "--", "true"]).output().expect("the sandbox command"));
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    project.append(policy, "  - {host: planted.test}\n");
    succeed(project.wary(&["allowlist", "deny", "api.test"]));
    assert!(text().contains("host: api.test") && text().ends_with("deny:\n  - api.test\n"), "{}", text());
    Ended::from(project.wary(&["run", "--", "true"]).output().expect("the sandbox command"))
        .fails(125, "sandbox trust");

    let left = Ended::from(
        project.wary(&["allowlist", "deny", "x.docs.test"]).output().expect("the sandbox command"),
    );
    assert_eq!(left.code, Some(0), "{left:?}");
    assert_eq!(left.stdout, "+ x.docs.test  in `deny` of .sandbox/network-allowlist.yaml\n");
    // Only the rule itself goes from `deny`.
    let still = Ended::from(
        project.wary(&["allowlist", "allow", "*.docs.test"]).output().expect("the sandbox command"),
    );
    assert_eq!(still.code, Some(1), "{still:?}");
    succeed(project.wary(&["allowlist", "allow", "x.docs.test"]));
    assert!(!text().contains("- x.docs.test"), "{}", text());
    succeed(project.wary(&["allowlist", "deny", "x.docs.test"]));
    let still = Ended::from(
        project.wary(&["allowlist", "allow", "GET", "*.docs.test/x"]).output().expect("the sandbox command"),
    );
    assert_eq!(still.code, Some(1), "{still:?}");
    assert!(
        still.stdout.ends_with("still denied, in whole or in part, by deny[1]: x.docs.test\n"),
        "{still:?}"
    );
    project.output(&["allowlist", "allow", "https://a.test:8443/"]).fails(2, "leave the port out");
}

#[tokio::test(flavor = "multi_thread")]
async fn package_rules_come_from_the_clients_of_the_image() {
    let prefix = "e2e-cli-packages";
    let project = Project::with_prefix(prefix);
    let policy = ".sandbox/network-allowlist.yaml";
    project.write(policy, "# ours\ndomains: []\n");
    project.write(".sandbox/sandbox.yaml", &config(prefix, "X").replace("image: X\n", ""));
    // The author of the image may configure any URL.
    let pip =
        "[global]\nindex-url = https://pypi.test/simple\nextra-index-url = http://169.254.169.254/simple\n";
    project.write(".sandbox/container/pip.conf", pip);
    project
        .write(".sandbox/container/sources.list", "deb [trusted=yes] http://apt.test/debian stable main\n");
    let dockerfile = format!(
        "FROM {}\nRUN rm -rf /etc/apt/sources.list.d\nCOPY pip.conf /etc/pip.conf\nCOPY sources.list /etc/apt/sources.list\n",
        Setting::of_this_run().clients_image
    );
    project.write(".sandbox/container/Dockerfile", &dockerfile);
    let install = "export HOME=/tmp; pip install -q --break-system-packages --disable-pip-version-check --target /tmp/site demo &&
        PYTHONPATH=/tmp/site python3 -c 'import demo; print(demo.GREETING)'
        apt-get -qq -o APT::Sandbox::User=root update &&
        apt-get -qq -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 install -y demo > /dev/null && cat /usr/share/demo/greeting
        curl -s -o /dev/null -w '%{http_code}\n' -X POST https://pypi.test/simple/";
    let control = project.run(install);
    assert_eq!(control.stdout, "403\n", "{control:?}");

    let shown = project.output(&["allowlist", "packages"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("+  - {host: pypi.test, path: \"/*\", methods: [GET, HEAD]}"), "{shown:?}");
    assert!(
        shown.stdout.contains("+  - {host: apt.test, path: \"/debian/*\", methods: [GET, HEAD]}"),
        "{shown:?}"
    );
    assert!(!shown.stdout.contains("169.254"), "{shown:?}");
    assert!(shown.stderr.contains("left out: pip http://169.254.169.254/: an address"), "{shown:?}");
    assert!(shown.stderr.contains("cargo: not in the image"), "{shown:?}");
    assert!(shown.stderr.contains("nothing was written; pass --yes to write the rules"), "{shown:?}");
    let text = || fs::read_to_string(project.path().join(policy)).expect("a policy");
    assert_eq!(text(), "# ours\ndomains: []\n");

    assert_eq!(project.output(&["allowlist", "packages", "--yes", "pip", "apt"]).code, Some(0));
    let installed = project.run(install);
    assert_eq!(installed.stdout, "demo from pip\ndemo from apt\n403\n", "{installed:?}\n{}", text());
    let again = project.output(&["allowlist", "packages", "--yes", "pip", "apt"]);
    assert!(again.stderr.contains("allows all registries that they use"), "{again:?}");
    assert_nothing_left(prefix).await;
}
