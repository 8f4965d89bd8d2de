//! The rules of `deny.toml`: licences, banned packages, packages in two versions, sources.
//!
//! The file is cargo-deny's own, and `cargo deny check` judges alike. It is read here because building cargo-deny takes longer than all
//! unit tests together, and nothing that is checked before each change may need a download of its own.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::source::Finding;
use crate::packages::{self, Package};
use crate::workspace;

const RULES: &str = "deny.toml";
/// What cargo calls its registry in a lock file, without the address.
const REGISTRIES: [&str; 2] = ["registry+", "sparse+"];

/// What is allowed.
#[derive(Debug)]
struct Rules {
    targets: Vec<String>,
    licenses: Vec<String>,
    /// Names, with the reason.
    banned: Vec<(String, String)>,
    /// `NAME@VERSION`, of which the version may be cut short: there may be another one beside it.
    doubled: Vec<String>,
}

/// Checks the workspace and the fuzz targets, which are one of their own.
pub(crate) fn check_dependencies() -> Result<Vec<Finding>> {
    let path = workspace::root().join(RULES);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let rules = Rules::read(&text)?;
    let (mut findings, mut all) = (Vec::new(), Vec::new());
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let mut options = vec!["--all-features", "--manifest-path", manifest];
        options.extend(
            rules
                .targets
                .iter()
                .flat_map(|target| ["--filter-platform", target.as_str()]),
        );
        let packages = packages::resolved(&options)?;
        findings.extend(
            check(&rules, &packages)
                .into_iter()
                .map(|message| Finding::whole(manifest, message)),
        );
        all.extend(packages);
    }
    findings.extend(needless(&rules, &all));
    Ok(findings)
}

impl Rules {
    fn read(text: &str) -> Result<Self> {
        let document: toml::Table = text.parse().context("deny.toml is no TOML")?;
        let document = serde_json::to_value(document)?;
        let list = |pointer: &str| {
            let list = document.pointer(pointer).and_then(Value::as_array);
            list.with_context(|| format!("{RULES} has no list at {pointer}"))
        };
        let texts = |pointer: &str| -> Result<Vec<String>> {
            let text = |entry: &Value| entry.as_str().map(str::to_owned);
            list(pointer)?
                .iter()
                .map(|entry| text(entry).with_context(|| format!("{RULES}: {pointer} holds {entry}")))
                .collect()
        };
        let field = |entry: &Value, name: &str| {
            let text = entry.get(name).and_then(Value::as_str).map(str::to_owned);
            text.with_context(|| format!("{RULES}: {entry} has no `{name}`"))
        };
        for (pointer, expected) in [
            ("/bans/multiple-versions", "deny"),
            ("/sources/unknown-registry", "deny"),
            ("/sources/unknown-git", "deny"),
        ] {
            if document.pointer(pointer).and_then(Value::as_str) != Some(expected) {
                bail!("{RULES}: {pointer} must be `{expected}`: nothing else is checked here");
            }
        }
        Ok(Self {
            targets: texts("/graph/targets")?,
            licenses: texts("/licenses/allow")?,
            banned: list("/bans/deny")?
                .iter()
                .map(|entry| Ok((field(entry, "name")?, field(entry, "reason")?)))
                .collect::<Result<_>>()?,
            doubled: list("/bans/skip")?
                .iter()
                .map(|entry| field(entry, "crate"))
                .collect::<Result<_>>()?,
        })
    }
}

fn check(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut findings: Vec<String> = packages
        .iter()
        .flat_map(|package| of_package(rules, package))
        .collect();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages.iter().filter(|package| !is_skipped(rules, package)) {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    findings.extend(versions.into_iter().map(|(name, versions)| {
        format!(
            "{name} is there in several versions: {}; see `cargo tree -i {name}@VERSION`",
            versions.join(", ")
        )
    }));
    findings
}

/// What the rules let pass though it is nowhere any more.
fn needless(rules: &Rules, packages: &[Package]) -> Vec<Finding> {
    let is_there = |skipped: &String| packages.iter().any(|package| is_called(package, skipped));
    let needless = rules.doubled.iter().filter(|skipped| !is_there(skipped));
    needless
        .map(|skipped| Finding::whole(RULES, format!("skips {skipped}, which is not there")))
        .collect()
}

fn of_package(rules: &Rules, package: &Package) -> Vec<String> {
    let called = format!("{} {}", package.name, package.version);
    let mut findings = Vec::new();
    match &package.license {
        None => findings.push(format!("{called} names no licence")),
        Some(license) => match is_permitted(license, &rules.licenses) {
            Some(true) => {}
            Some(false) => findings.push(format!(
                "{called}: the licence `{license}` is not among those in {RULES}"
            )),
            None => findings.push(format!("{called}: `{license}` is no expression of licences")),
        },
    }
    if let Some((_, reason)) = rules.banned.iter().find(|(name, _)| *name == package.name) {
        findings.push(format!("{called} is banned: {reason}"));
    }
    if let Some(source) = &package.source
        && !REGISTRIES.iter().any(|registry| source.starts_with(registry))
    {
        findings.push(format!("{called} is from {source}, which is no registry"));
    }
    findings
}

fn is_skipped(rules: &Rules, package: &Package) -> bool {
    rules.doubled.iter().any(|skipped| is_called(package, skipped))
}

fn is_called(package: &Package, wanted: &str) -> bool {
    wanted.split_once('@').is_some_and(|(name, version)| {
        let rest = package.version.strip_prefix(version);
        package.name == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Whether the SPDX expression can be met with `allowed`; `None` when it is none.
fn is_permitted(expression: &str, allowed: &[String]) -> Option<bool> {
    // What older packages write.
    let text = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut reader = Expression {
        words: &words,
        allowed,
    };
    let met = reader.any()?;
    reader.words.is_empty().then_some(met)
}

struct Expression<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl<'a> Expression<'a> {
    fn any(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.takes("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.takes("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let met = self.any()?;
            return self.takes(")").then_some(met);
        }
        let mut license = self.word()?.to_owned();
        if self.takes("WITH") {
            license = format!("{license} WITH {}", self.word()?);
        }
        Some(self.allowed.contains(&license))
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = self.words.get(1..).unwrap_or_default();
        }
        is_next
    }

    fn word(&mut self) -> Option<&'a str> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        (!["(", ")", "AND", "OR", "WITH"].contains(word)).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        [licenses]
        allow = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]
        [bans]
        multiple-versions = "deny"
        deny = [{ name = "openssl-sys", reason = "one library" }]
        skip = [{ crate = "two@0.1", reason = "old" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some("MIT".to_owned()),
            source: Some("registry+x".to_owned()),
            ..Package::default()
        }
    }

    fn findings(packages: &[Package]) -> Vec<String> {
        let mut packages = packages.to_vec();
        packages.extend([package("two", "0.1.9"), package("two", "0.2.0")]);
        check(&Rules::read(TEXT).unwrap(), &packages)
    }

    #[test]
    fn what_is_in_order_is_not_found() {
        assert_eq!(findings(&[package("a", "1.0.0")]), Vec::<String>::new());
    }

    #[test]
    fn each_breach_is_found() {
        let without = Package {
            license: None,
            ..package("a", "1.0.0")
        };
        let copyleft = Package {
            license: Some("GPL-3.0-only".to_owned()),
            ..package("a", "1.0.0")
        };
        let odd = Package {
            license: Some("MIT OR".to_owned()),
            ..package("a", "1.0.0")
        };
        let git = Package {
            source: Some("git+https://x".to_owned()),
            ..package("a", "1.0.0")
        };
        for (packages, expected) in [
            (vec![without], "a 1.0.0 names no licence"),
            (vec![copyleft], "`GPL-3.0-only` is not among"),
            (vec![odd], "`MIT OR` is no expression"),
            (vec![git], "is from git+https://x"),
            (vec![package("openssl-sys", "0.9.0")], "banned: one library"),
            (
                vec![package("a", "1.0.0"), package("a", "2.0.0")],
                "several versions: 1.0.0, 2.0.0",
            ),
        ] {
            let found = findings(&packages);
            assert!(
                found.len() == 1 && found[0].contains(expected),
                "{expected}: {found:?}"
            );
        }
        let rules = Rules::read(TEXT).unwrap();
        assert_eq!(needless(&rules, &[package("two", "0.1.9")]), []);
        assert_eq!(needless(&rules, &[package("two", "0.12.0")]).len(), 1);
    }

    #[test]
    fn rules_that_are_not_checked_are_an_error() {
        for (from, to) in [
            ("multiple-versions = \"deny\"", "multiple-versions = \"warn\""),
            ("unknown-git = \"deny\"", "unknown-git = \"allow\""),
            ("allow =", "permit ="),
            ("reason = \"one library\"", "why = \"x\""),
            ("[graph]", "graph"),
        ] {
            assert!(Rules::read(&TEXT.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn expressions_of_licences_are_read() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for (expression, expected) in [
            ("MIT", Some(true)),
            ("GPL-2.0", Some(false)),
            ("GPL-2.0 OR MIT", Some(true)),
            ("GPL-2.0/MIT", Some(true)),
            ("GPL-2.0 AND MIT", Some(false)),
            ("GPL-2.0 AND MIT OR ISC", Some(true)),
            ("GPL-2.0 AND (MIT OR ISC)", Some(false)),
            ("(MIT OR GPL-2.0) AND ISC", Some(true)),
            ("Apache-2.0", Some(false)),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", Some(true)),
            ("", None),
            ("MIT ISC", None),
            ("(MIT", None),
            ("MIT AND OR ISC", None),
            ("MIT WITH", None),
        ] {
            assert_eq!(is_permitted(expression, &allowed), expected, "{expression}");
        }
    }
}
