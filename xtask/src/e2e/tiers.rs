//! The selection of end-to-end tests for each engine, and the tests that a change adds to the fast
//! ones: filtersets of cargo-nextest.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::engine::Podman;
use crate::nextest::Built;

/// Tests to run on an engine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    pub(crate) podman: Podman,
    pub(crate) filter: String,
}

/// All tests on podman 5; on the other engines those that depend on podman's version, on root, or
/// on the kernel.
pub(crate) fn all() -> Vec<Selection> {
    [
        (Podman::Five, E2E.to_owned()),
        (Podman::Four, any_of(&ON_PODMAN_4)),
        (Podman::FiveRootless, rootless()),
        (Podman::FourRootless, any_of(&FAST_ROOTLESS)),
        (Podman::Gvisor, GVISOR.to_owned()),
        (Podman::Quota, QUOTA.to_owned()),
    ]
    .map(|(podman, filter)| Selection { podman, filter })
    .into()
}

/// The tests that every change must pass.
pub(crate) fn fast() -> Vec<Selection> {
    let five = format!("{} & not ({})", any_of(&FAST), any_of(&SLOW));
    [(Podman::Five, five), (Podman::Four, any_of(&FAST_ON_4)), (Podman::FiveRootless, any_of(&FAST_ROOTLESS))]
        .map(|(podman, filter)| Selection { podman, filter })
        .into()
}

/// The tests of `podman` whose names contain one of `names`. None of them is left out, since a user
/// asked for them.
pub(crate) fn named(podman: Podman, names: &[String]) -> Selection {
    let names: Vec<String> = names.iter().map(|name| format!("test({name})")).collect();
    let filter = format!("binary_id(e2e-tests::{}) & ({})", podman.tests(), names.join(" | "));
    Selection { podman, filter }
}

const E2E: &str = "binary_id(e2e-tests::e2e)";
const GVISOR: &str = "binary_id(e2e-tests::gvisor)";
const QUOTA: &str = "binary_id(e2e-tests::quota)";

/// Promises 1 to 6 and 9 of SECURITY.md, on podman 5.
const FAST: [&str; 27] = [
    "asking::answer_opens_no_private_address",
    "asking::answers_once_run_always_and_no",
    "command_line::auto::",
    "command_line::exec::",
    "command_line::exec_in_run::",
    "command_line::git::withheld::",
    "command_line::left_behind::",
    "command_line::run::",
    "command_line::terminal::killed_owner",
    "command_line::watch::hostile_requests",
    "command_line::workspace::",
    "credentials::foreign::",
    "credentials::scope::",
    "executor::behaviour::",
    "git_rules::",
    "hardening::rights::",
    "identity::",
    "isolation::",
    "lifecycle::instances::",
    "requests::",
    "services::",
    "shield::",
    "taken_over::",
    "vendor_tools::hostile_requests_fail_closed",
    "verify::holds::",
    "workspace::followed::",
    "workspace::planted::",
];
/// The tests that [`FAST`] leaves to the matrix, since they are slow or need third-party servers.
const SLOW: [&str; 4] = [
    "isolation::host_services_are_unreachable_over_ipv6_link_local",
    "isolation::podman_names_of_the_host_are_unreachable",
    "services::cache_of_the_host",
    "services::database_of_the_host",
];
/// The fast tests on podman 4: containment that depends on podman's version.
const FAST_ON_4: [&str; 10] = [
    "hardening::rights::capabilities_and_no_new_privileges",
    "image_builds::reach::step_reaches_nothing_else",
    "isolation::datagrams_to_the_host",
    "isolation::host_services_are_unreachable_over_ipv4",
    "isolation::only_three_ports",
    "isolation::udp_and_icmp_to_the_outside",
    "lifecycle::instances::kill_9",
    "requests::allowed_request",
    "taken_over::proxy_reaches_public_hosts",
    "verify::holds::every_guarantee_for_an_agent",
];
/// The fast tests on an engine of an ordinary user.
const FAST_ROOTLESS: [&str; 10] = [
    "command_line::care::doctor",
    "command_line::run::exit_code_and_streams",
    "credentials::scope::host_out_of_scope",
    "executor::behaviour::root_is_read_only",
    "isolation::host_services_are_unreachable_over_ipv4",
    "isolation::only_three_ports",
    "rootless::",
    "services::link_made_by_a_task",
    "taken_over::proxy_reaches_public_hosts",
    "verify::holds::every_guarantee_for_the_untrusted",
];
/// The tests that depend on whether root runs the engine.
const ROOTLESS: [&str; 16] = [
    "agent::tool_call",
    "command_line::care::doctor",
    "command_line::run::",
    "credentials::scope::",
    "executor::behaviour::",
    "executor::files::",
    "executor::limits::",
    "executor::timeouts::",
    "executor::workspace::",
    "hardening::process::",
    "isolation::",
    "rootless::",
    "services::link_made_by_a_task",
    "services::policy_decides",
    "taken_over::",
    "verify::",
];
/// Parts of the names of tests in [`ROOTLESS`] that are left out; CONTRIBUTING.md explains why.
const NEED_ROOT: [&str; 15] = [
    "able_to_raise_its_limits",
    "added_capabilities",
    "added_devices",
    "another_mount_namespace",
    "cannot_be_pinged",
    "datagrams_to_the_host",
    "every_guarantee_for_an_agent",
    "fork_bomb_ends",
    "internal_network_reaches_the_host",
    "is_checked_for_tampering",
    "link_local",
    "process_refusal",
    "sharing_host_namespaces",
    "swap_is_disabled",
    "udp_and_icmp",
];
/// The tests that depend on podman's version: how it creates, limits, enters, builds and removes
/// containers.
const ON_PODMAN_4: [&str; 29] = [
    "command_line::care::",
    "command_line::exec_in_run::",
    "command_line::full_screen::",
    "command_line::image::",
    "command_line::terminal::",
    "credentials::search::",
    "executor::host::",
    "executor::limits::",
    "hardening::process::",
    "hardening::rights::",
    "image_builds::killed::",
    "image_builds::reach::",
    "images::",
    "isolation::",
    "lifecycle::",
    "reliability::bridges::",
    "reliability::leftovers::",
    "reliability::monitor::",
    "requests::allowed_request",
    "resources::disk::",
    "resources::events::",
    "resources::mounts::",
    "resources::processes::",
    "runs::copy::",
    "runs::hooks::",
    "runs::lifecycle::",
    "runs::volumes::",
    "taken_over::",
    "verify::",
];

/// Beginnings of the names of tests that need programs other than those of this checkout and Claude
/// Code.
pub(super) const NEED_FETCHED: [&str; 6] = [
    "ci::",
    "clients::",
    "command_line::learn::",
    "command_line::other_agents::",
    "credentials::clients::",
    "mcp::",
];
/// Beginnings of the names of tests that need databases.
pub(super) const NEED_DATABASES: [&str; 3] =
    ["gateway::", "services::cache_of_the_host", "services::database_of_the_host"];
/// Beginnings of the names of tests that need an S3 server.
pub(super) const NEED_S3: [&str; 1] = ["credentials::s3::"];
/// Beginnings of the names of tests that need a Slurm cluster.
pub(super) const NEED_SLURM: [&str; 1] = ["slurm::"];
/// Beginnings of the names of tests that need what checks manifests for Kubernetes.
pub(super) const NEED_KUBERNETES: [&str; 1] = ["kubernetes::"];

/// The tests that a change of a path adds to the fast ones.
struct Rule {
    /// Beginnings of paths.
    paths: &'static [&'static str],
    /// Beginnings of the names of tests on podman 5.
    tests: &'static [&'static str],
    /// The engines whose whole selection is added.
    engines: &'static [Podman],
}

const RULES: [Rule; 17] = [
    Rule {
        paths: &[
            "crates/podman/",
            "crates/packet-filter/",
            "crates/sandbox/src/container/",
            "crates/sandbox/src/egress/",
        ],
        tests: &["hardening::", "lifecycle::", "images::", "runs::", "verify::", "reliability::"],
        engines: &[Podman::Four, Podman::FiveRootless, Podman::Quota],
    },
    Rule {
        paths: &["crates/inside/", "crates/sandbox/src/executor/"],
        tests: &["executor::", "verify::"],
        engines: &[Podman::Gvisor],
    },
    Rule { paths: &["crates/sandbox/src/image/"], tests: &["images::", "image_builds::"], engines: &[] },
    Rule {
        paths: &["crates/workspace/", "crates/files/", "crates/host-git/"],
        tests: &["workspace::", "command_line::git::", "command_line::two_runs::"],
        engines: &[],
    },
    Rule {
        paths: &[
            "crates/credentials/",
            "crates/logins/",
            "crates/proxy/src/credential",
            "crates/proxy/src/scrub",
            "crates/proxy/src/signing",
        ],
        tests: &["credentials::"],
        engines: &[],
    },
    Rule {
        paths: &["crates/agents/", "crates/claude-output/", "crates/sandbox/src/task/", "crates/session/"],
        tests: &[
            "agent",
            "command_line::agent::",
            "command_line::other_agents::",
            "gateway::",
            "mcp::",
            "lifecycle::full::",
        ],
        engines: &[],
    },
    Rule { paths: &["crates/sandbox-cli/"], tests: &["command_line::", "images::"], engines: &[] },
    Rule { paths: &["crates/bundle/"], tests: &["bundles::", "slurm::"], engines: &[] },
    Rule {
        paths: &[
            "crates/sandbox-cli/src/slurm/",
            "crates/sandbox-cli/src/commands/job",
            "crates/sandbox-cli/src/commands/submit",
        ],
        tests: &["slurm::"],
        engines: &[],
    },
    Rule {
        paths: &[
            "crates/sandbox-cli/src/args/render",
            "crates/sandbox-cli/src/commands/render",
            "crates/sandbox-cli/src/kubernetes",
            "crates/sandbox/src/egress/remote",
            "crates/sandbox/src/egress/trust/",
            "tests/tests/e2e/kubernetes/",
        ],
        tests: &["kubernetes::"],
        engines: &[],
    },
    Rule { paths: &["action.yml", "templates/"], tests: &["ci::"], engines: &[] },
    Rule { paths: &["crates/gate/"], tests: &["gate::", "command_line::gate::"], engines: &[] },
    Rule { paths: &["crates/sandbox/examples/"], tests: &["examples::", "gateway::"], engines: &[] },
    Rule { paths: &["crates/ssh/"], tests: &["ssh::"], engines: &[] },
    Rule { paths: &["tests/tests/gvisor/"], tests: &[], engines: &[Podman::Gvisor] },
    Rule { paths: &["tests/tests/quota/"], tests: &[], engines: &[Podman::Quota] },
    Rule {
        paths: &["tests/tests/e2e/rootless"],
        tests: &[],
        engines: &[Podman::FourRootless, Podman::FiveRootless],
    },
];

/// The tests that a change of `paths` adds.
pub(crate) fn additions(paths: &[String]) -> Vec<Selection> {
    let touched =
        |rule: &&Rule| paths.iter().any(|path| rule.paths.iter().any(|begin| path.starts_with(begin)));
    let rules: Vec<&Rule> = RULES.iter().filter(touched).collect();
    let mut names: Vec<String> =
        rules.iter().flat_map(|rule| rule.tests).map(|name| (*name).to_owned()).collect();
    names.extend(paths.iter().filter_map(|path| changed_module(path)));
    names.sort_unstable();
    names.dedup();
    let mut selections = Vec::new();
    if !names.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        selections.push(Selection { podman: Podman::Five, filter: any_of(&names) });
    }
    let engines: Vec<Podman> = rules.iter().flat_map(|rule| rule.engines).copied().collect();
    selections.extend(all().into_iter().filter(|selection| engines.contains(&selection.podman)));
    selections
}

/// Joins the selections of each engine, in the order of first appearance.
pub(crate) fn joined(selections: impl Iterator<Item = Selection>) -> Vec<Selection> {
    let mut joined: Vec<Selection> = Vec::new();
    for selection in selections {
        match joined.iter_mut().find(|one| one.podman == selection.podman) {
            Some(one) => one.filter = format!("({}) | ({})", one.filter, selection.filter),
            None => joined.push(selection),
        }
    }
    joined
}

/// `tests/tests/e2e/a/b.rs` has the tests `a::b::…`.
fn changed_module(path: &str) -> Option<String> {
    let module = path.strip_prefix("tests/tests/e2e/")?.strip_suffix(".rs")?;
    (module != "main" && !module.ends_with("mod")).then(|| module.replace('/', "::") + "::")
}

/// End-to-end tests whose names begin with one of `names`.
fn any_of(names: &[&str]) -> String {
    format!("({E2E} & test(/^({})/))", names.join("|"))
}

fn rootless() -> String {
    format!("{} & not test(/{}/)", any_of(&ROOTLESS), NEED_ROOT.join("|"))
}

/// Fails unless each name above is part of the name of a test: a renamed test would no longer run,
/// or no longer be left out.
pub(crate) fn check(tests: &Built) -> Result<()> {
    let names = tests.names(E2E)?;
    let lists: [&[&str]; 12] = [
        &FAST,
        &SLOW,
        &FAST_ON_4,
        &FAST_ROOTLESS,
        &ROOTLESS,
        &NEED_ROOT,
        &ON_PODMAN_4,
        &NEED_FETCHED,
        &NEED_DATABASES,
        &NEED_S3,
        &NEED_SLURM,
        &NEED_KUBERNETES,
    ];
    let listed = lists.into_iter().chain(RULES.iter().map(|rule| rule.tests)).flatten();
    missing(listed, &names).map_or(Ok(()), |name| {
        bail!("no end-to-end test has `{name}` in its name, which xtask/src/e2e/tiers.rs lists")
    })
}

fn missing<'a>(
    mut listed: impl Iterator<Item = &'a &'static str>,
    names: &BTreeSet<String>,
) -> Option<&'static str> {
    listed.find(|listed| !names.iter().any(|name| name.contains(**listed))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_without_a_test_is_found() {
        let names = BTreeSet::from(["rootless::limit_holds".to_owned()]);
        assert_eq!(missing(["rootless::", "limit"].iter(), &names), None);
        assert_eq!(missing(["rootless::", "isolation::"].iter(), &names), Some("isolation::"));
    }

    #[test]
    fn change_adds_the_tests_of_its_part_and_its_own() {
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        assert_eq!(additions(&paths(&["README.md", "docs/git.md"])), []);
        let added = additions(&paths(&["crates/ssh/src/lib.rs", "tests/tests/e2e/runs/copy.rs"]));
        let [five] = added.as_slice() else { panic!("{added:?}") };
        assert!(five.filter.ends_with("test(/^(runs::copy::|ssh::)/))"), "{}", five.filter);
        let engines: Vec<Podman> =
            additions(&paths(&["crates/podman/src/lib.rs"])).iter().map(|added| added.podman).collect();
        assert_eq!(engines, [Podman::Five, Podman::Four, Podman::FiveRootless, Podman::Quota]);
    }

    #[test]
    fn selections_of_one_engine_are_joined() {
        let one = |podman, filter: &str| Selection { podman, filter: filter.into() };
        let all = [one(Podman::Five, "a"), one(Podman::Quota, "b"), one(Podman::Five, "c")];
        assert_eq!(joined(all.into_iter()), [one(Podman::Five, "(a) | (c)"), one(Podman::Quota, "b")]);
    }

    #[test]
    fn paths_of_the_rules_exist() {
        for path in RULES.iter().flat_map(|rule| rule.paths) {
            let full = crate::workspace::root().join(path);
            assert!(full.exists() || full.with_extension("rs").exists(), "{path}");
        }
    }
}
