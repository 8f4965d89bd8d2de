//! The dependency arrows between our crates, and the packages that each must never link.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::Value;

use super::source::Finding;
use crate::cargo::{self, cargo};
use crate::process;

/// The packages of ours that a package may depend on, and those that it must not link at any depth.
struct Rule {
    package: &'static str,
    may_use: &'static [&'static str],
    never_links: &'static [&'static str],
}

const PURE: &[&str] = &["tokio", "hyper", "rustls", "bollard"];

/// Every member of the workspace must have a rule.
const RULES: [Rule; 30] = [
    Rule { package: "allowlist", may_use: &["located-yaml"], never_links: PURE },
    Rule { package: "located-yaml", may_use: &[], never_links: PURE },
    Rule { package: "claude-output", may_use: &["fuzz-input"], never_links: PURE },
    Rule { package: "sandbox-credentials", may_use: &["allowlist"], never_links: PURE },
    Rule { package: "sandbox-packet-filter", may_use: &[], never_links: PURE },
    Rule { package: "sandbox-panic-hook", may_use: &[], never_links: PURE },
    Rule {
        package: "sandbox-proxy-protocol",
        may_use: &["allowlist", "sandbox-credentials"],
        never_links: PURE,
    },
    Rule {
        package: "sandbox-agents",
        may_use: &["allowlist", "claude-output", "located-yaml", "sandbox-proxy-protocol"],
        never_links: PURE,
    },
    Rule {
        package: "sandbox-proxy",
        may_use: &[
            "allowlist",
            "fuzz-input",
            "sandbox-credentials",
            "sandbox-packet-filter",
            "sandbox-panic-hook",
            "sandbox-proxy-protocol",
        ],
        never_links: &["bollard", "aws-lc-rs", "openssl", "serde_yaml", "unsafe-libyaml"],
    },
    Rule { package: "sandbox-inside", may_use: &[], never_links: PURE },
    Rule {
        package: "sandbox-bundle",
        may_use: &["allowlist", "sandbox-agents", "sandbox-credentials", "sandbox-files"],
        never_links: &["hyper", "rustls", "bollard"],
    },
    Rule { package: "sandbox-files", may_use: &[], never_links: &["hyper", "rustls", "bollard"] },
    Rule {
        package: "sandbox-workspace",
        may_use: &["fuzz-input", "sandbox-files", "sandbox-host-git"],
        never_links: &["hyper", "rustls", "bollard"],
    },
    Rule {
        package: "sandbox-session",
        may_use: &["claude-output", "sandbox-files"],
        never_links: &["hyper", "rustls", "bollard"],
    },
    Rule {
        package: "sandbox-network-log",
        may_use: &["sandbox-files", "sandbox-proxy-protocol"],
        never_links: &["hyper", "rustls", "bollard"],
    },
    Rule {
        package: "sandbox-gate",
        may_use: &["allowlist", "sandbox-files"],
        never_links: &["rustls", "bollard", "openssl"],
    },
    Rule {
        package: "sandbox-host-git",
        may_use: &["sandbox-files"],
        never_links: &["hyper", "rustls", "bollard"],
    },
    Rule {
        package: "sandbox-ssh",
        may_use: &["sandbox-files"],
        never_links: &["hyper", "rustls", "bollard", "openssl"],
    },
    Rule { package: "sandbox-https", may_use: &[], never_links: &["bollard", "aws-lc-rs", "openssl"] },
    Rule {
        package: "sandbox-otlp",
        may_use: &["sandbox-network-log", "sandbox-proxy-protocol"],
        never_links: &["hyper", "rustls", "bollard", "tonic"],
    },
    Rule {
        package: "sandbox-logins",
        may_use: &["allowlist", "sandbox-credentials", "sandbox-files", "sandbox-https"],
        never_links: &["bollard", "aws-lc-rs", "openssl"],
    },
    Rule { package: "sandbox-podman", may_use: &["fuzz-input"], never_links: &["rustls", "openssl"] },
    Rule {
        package: "sandbox",
        may_use: &[
            "allowlist",
            "claude-output",
            "fuzz-input",
            "sandbox-agents",
            "sandbox-credentials",
            "sandbox-files",
            "sandbox-inside",
            "sandbox-gate",
            "sandbox-network-log",
            "sandbox-packet-filter",
            "sandbox-podman",
            "sandbox-proxy-protocol",
            "sandbox-session",
            "sandbox-ssh",
            "sandbox-workspace",
        ],
        never_links: &["rustls", "openssl"],
    },
    Rule {
        package: "sandbox-cli",
        may_use: &[
            "sandbox",
            "sandbox-files",
            "allowlist",
            "claude-output",
            "located-yaml",
            "sandbox-bundle",
            "sandbox-credentials",
            "sandbox-https",
            "sandbox-logins",
            "sandbox-otlp",
            "sandbox-panic-hook",
        ],
        never_links: &["aws-lc-rs", "openssl", "tonic"],
    },
    Rule { package: "fuzz-input", may_use: &[], never_links: PURE },
    Rule { package: "xtask", may_use: &[], never_links: &["tokio"] },
    Rule {
        package: "e2e-tests",
        may_use: &["sandbox", "sandbox-bundle", "allowlist", "test-world"],
        never_links: &["openssl"],
    },
    Rule { package: "cluster-simulation", may_use: &[], never_links: PURE },
    Rule { package: "test-world", may_use: &[], never_links: &["bollard", "aws-lc-rs", "openssl"] },
    Rule {
        package: "benchmarks",
        may_use: &["sandbox", "allowlist", "sandbox-proxy-protocol", "test-world"],
        never_links: &["openssl"],
    },
];

/// Third-party interfaces and the packages that may depend on them; others use the types of these
/// packages.
const INTERFACES: [(&str, &[&str]); 2] = [
    ("bollard", &["sandbox-podman"]),
    (
        "hyper",
        &[
            "sandbox-gate",
            "sandbox-https",
            "sandbox-podman",
            "sandbox-proxy",
            "test-world",
            "e2e-tests",
            "benchmarks",
        ],
    ),
];

/// Reads the workspace and compares it with the rules.
pub(crate) fn check_arrows() -> Result<Vec<Finding>> {
    let members = cargo::packages()?;
    let mut findings = direct(&members);
    for rule in RULES.iter().filter(|rule| members.iter().any(|member| name(member) == rule.package)) {
        let linked = linked(rule.package)?;
        findings.extend(forbidden(rule, &linked));
    }
    Ok(findings)
}

fn direct(members: &[Value]) -> Vec<Finding> {
    let ours: BTreeSet<&str> = members.iter().map(name).collect();
    members.iter().flat_map(|member| direct_of(member, &ours)).collect()
}

fn direct_of(member: &Value, ours: &BTreeSet<&str>) -> Vec<Finding> {
    let package = name(member);
    let manifest = format!("the manifest of {package}");
    let Some(rule) = RULES.iter().find(|rule| rule.package == package) else {
        return vec![Finding::whole(
            &manifest,
            "no dependency rule covers this package; add one to xtask's tidy",
        )];
    };
    let dependencies = member.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    dependencies
        // Tests may use packages that the crate itself may not.
        .filter(|dependency| dependency.get("kind").and_then(Value::as_str) != Some("dev"))
        .map(name)
        .filter(|dependency| {
            let is_foreign =
                |(name, users): &(&str, &[&str])| name == dependency && !users.contains(&package);
            ours.contains(dependency) && !rule.may_use.contains(dependency)
                || INTERFACES.iter().any(is_foreign)
        })
        .map(|dependency| Finding::whole(&manifest, format!("{package} must not depend on {dependency}")))
        .collect()
}

fn forbidden(rule: &Rule, linked: &BTreeSet<String>) -> Vec<Finding> {
    let manifest = format!("the dependencies of {}", rule.package);
    let found = rule.never_links.iter().filter(|name| linked.contains(**name));
    found
        .map(|name| {
            let how = format!("cargo tree -p {} -e normal -i {name}", rule.package);
            Finding::whole(&manifest, format!("{} must not link {name}; see `{how}`", rule.package))
        })
        .collect()
}

/// All packages that are linked into `package`, with only the features that it selects itself.
fn linked(package: &str) -> Result<BTreeSet<String>> {
    let args = ["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let text = process::output(&mut cargo(args))?;
    Ok(text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

fn name(value: &Value) -> &str {
    value.get("name").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn findings(members: &Value) -> Vec<String> {
        direct(members.as_array().unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn forbidden_arrows_are_found() {
        let members = json!([
            {"name": "allowlist", "dependencies": [{"name": "sandbox", "kind": null}, {"name": "serde", "kind": null}]},
            {"name": "sandbox", "dependencies": [{"name": "allowlist", "kind": null}, {"name": "bollard", "kind": null}]},
            {"name": "sandbox-podman", "dependencies": [{"name": "bollard", "kind": null}]},
        ]);
        assert_eq!(
            findings(&members),
            [
                "the manifest of allowlist: allowlist must not depend on sandbox",
                "the manifest of sandbox: sandbox must not depend on bollard"
            ]
        );
    }

    #[test]
    fn dependencies_of_tests_are_not_checked() {
        let members = json!([
            {"name": "xtask", "dependencies": [{"name": "allowlist", "kind": "dev"}]},
            {"name": "allowlist", "dependencies": []},
        ]);
        assert_eq!(findings(&members), Vec::<String>::new());
    }

    #[test]
    fn package_without_a_rule_is_found() {
        let members = json!([{"name": "newcomer", "dependencies": []}]);
        assert!(findings(&members)[0].contains("no dependency rule"));
    }

    #[test]
    fn forbidden_link_is_found() {
        let linked = BTreeSet::from(["tokio".to_owned(), "serde".to_owned()]);
        let of = |package: &str| {
            let rule = RULES.iter().find(|rule| rule.package == package).unwrap();
            forbidden(rule, &linked)
        };
        assert!(of("allowlist")[0].to_string().contains("allowlist must not link tokio"));
        assert!(of("sandbox").is_empty());
    }
}
