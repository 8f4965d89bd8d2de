//! Versions of the engine, its runtime and the kernel with known vulnerabilities that matter to a
//! sandbox.
//!
//! A version number cannot show that a distribution backported a fix, so these are only warnings.
//! Numbers that are not comparable, such as those of a distribution's own kernel series, are not
//! judged.

use std::fmt;

use sandbox::diagnostics::EngineFacts;
use serde::Deserialize;

use super::report::Check;

const NAME: &str = "vulnerabilities";

/// Major, minor, patch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "&str")]
struct Number(u32, u32, u32);

/// The content of `advisories.json`.
#[derive(Deserialize)]
struct Advisories {
    /// The date of the last comparison with the sources.
    as_of: String,
    advisories: Vec<Advisory>,
}

/// Vulnerabilities of one product that were fixed together.
#[derive(Deserialize)]
struct Advisory {
    product: String,
    ids: String,
    /// The impact of an attack.
    impact: String,
    #[serde(default)]
    since: Number,
    /// The first fixed version of each release series.
    fixed: Vec<Number>,
    /// The source of these versions.
    source: String,
}

/// Checks these versions; `podman` is the engine's.
pub(super) fn check(podman: &str, facts: &EngineFacts) -> Check {
    let Advisories { as_of, advisories } = Advisories::built_in();
    let runtime = facts.runtime.rsplit('/').next().unwrap_or_default();
    let installed =
        [("podman", podman), (runtime, facts.runtime_version.as_str()), ("kernel", facts.kernel.as_str())];
    let found: Vec<String> =
        installed.iter().flat_map(|(product, version)| found(&advisories, product, version)).collect();
    if found.is_empty() {
        let none =
            format!("as of {as_of}, none known for these versions of podman, its runtime and the kernel");
        return Check::ok(NAME, none);
    }
    Check::warn(
        NAME,
        format!(
            "as of {as_of}, these versions may be affected, unless your distribution backported the fix:\n{}",
            found.join("\n")
        ),
        "update these components; your distribution's security tracker lists the packages with the fix",
    )
}

/// A line for each advisory about this version of the product.
fn found(advisories: &[Advisory], product: &str, version: &str) -> Vec<String> {
    let Ok(number) = Number::try_from(version) else {
        return Vec::new();
    };
    let affects = |it: &&Advisory| it.product == product && it.affects(number);
    let line = |it: &Advisory| {
        let fixed: Vec<String> = it.fixed.iter().map(Number::to_string).collect();
        let Advisory { ids, impact, source, .. } = it;
        format!("{product} {version}: {ids}, fixed in {}: {impact} ({source})", fixed.join(", "))
    };
    advisories.iter().filter(affects).map(line).collect()
}

impl Advisories {
    #[expect(clippy::expect_used, reason = "a part of the program, which a test reads")]
    fn built_in() -> Self {
        serde_json::from_str(include_str!("advisories.json")).expect("a valid table")
    }
}

impl Advisory {
    fn affects(&self, version: Number) -> bool {
        let series = |number: &Number| (number.0, number.1);
        if version < self.since {
            return false;
        }
        match self.fixed.iter().find(|fixed| series(fixed) == series(&version)) {
            // Distributions that keep a first release number their own fixes after it.
            Some(_) if self.product == "kernel" && version.2 == 0 => false,
            Some(fixed) => version < *fixed,
            // For podman and the runtimes, a series that is not listed is not patched; for kernels,
            // many patched series are not listed.
            None => self.product != "kernel" && self.fixed.iter().all(|fixed| version < *fixed),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(formatter, "{major}.{minor}.{patch}")
    }
}

/// `4.3.1`, `1.27`, `6.12.85+deb13-amd64`
impl TryFrom<&str> for Number {
    type Error = &'static str;

    fn try_from(version: &str) -> Result<Self, Self::Error> {
        let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
        let mut parts = version.get(..end).unwrap_or_default().split('.');
        let mut next = |missing: &str| -> Option<u32> {
            parts.next().filter(|part| !part.is_empty()).unwrap_or(missing).parse().ok()
        };
        let number = next("").zip(next("")).zip(next("0"));
        number.map(|((major, minor), patch)| Self(major, minor, patch)).ok_or("not a version such as 5.4.2")
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    #[test]
    fn versions_are_judged_by_their_release_series() {
        let Advisories { advisories, .. } = Advisories::built_in();
        for (product, version, expected) in [
            ("podman", "4.3.1", 5),
            ("podman", "3.4.4", 4),
            ("podman", "5.4.2", 3),
            ("podman", "5.6.1", 2),
            ("podman", "5.8.3", 1),
            ("podman", "5.8.4", 0),
            ("podman", "6.0.0", 0),
            ("runc", "1.1.5", 1),
            ("runc", "1.2.7", 1),
            ("runc", "1.2.8", 0),
            ("runc", "1.3.2", 1),
            ("runc", "1.3.3", 0),
            ("runc", "1.4.0", 0),
            ("crun", "1.8.1", 1),
            ("crun", "1.19", 2),
            ("crun", "1.21", 1),
            ("crun", "1.27", 0),
            ("kernel", "6.12.84", 2),
            ("kernel", "6.12.85", 1),
            ("kernel", "6.12.87", 0),
            ("kernel", "6.18.5", 3),
            ("kernel", "6.18.29", 0),
            ("kernel", "7.0.4", 2),
            ("kernel", "7.1.0", 0),
            // Versions of a distribution, or of a series that is not listed, are inconclusive.
            ("kernel", "6.12.0", 0),
            ("kernel", "6.8.12", 0),
            ("kernel", "5.14.0", 0),
            ("youki", "0.1.0", 0),
        ] {
            let found = found(&advisories, product, version);
            assert_eq!(found.len(), expected, "{product} {version}: {found:?}");
        }
    }

    #[test]
    fn versions_are_read_as_they_are_written() {
        for (text, expected) in [
            ("4.3.1+ds1-8", Some(Number(4, 3, 1))),
            ("1.27", Some(Number(1, 27, 0))),
            ("6.12.85+deb13-amd64", Some(Number(6, 12, 85))),
            ("6.6.87.2-microsoft-standard-WSL2", Some(Number(6, 6, 87))),
            ("1.4.0-rc.2", Some(Number(1, 4, 0))),
            ("release-20250101", None),
            ("", None),
            ("5", None),
        ] {
            assert_eq!(Number::try_from(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn warning_names_version_fix_and_source() {
        let mut facts = EngineFacts::default();
        "/usr/bin/runc".clone_into(&mut facts.runtime);
        "1.1.5+ds1".clone_into(&mut facts.runtime_version);
        "6.18.28".clone_into(&mut facts.kernel);
        let check = check("5.8.4", &facts);
        assert_eq!(check.verdict(), Verdict::Warn);
        let text = format!("{check:?}");
        for part in [
            "runc 1.1.5+ds1: CVE-2025-31133, CVE-2025-52565, CVE-2025-52881, fixed in 1.2.8, 1.3.3",
            "kernel 6.18.28: CVE-2026-43500",
            "unless your distribution backported the fix",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("podman 5.8.4"), "{text}");
        assert_eq!(super::check("5.8.4", &EngineFacts::default()).verdict(), Verdict::Ok);
    }

    #[test]
    fn every_advisory_has_versions_in_order_and_a_source() {
        for advisory in Advisories::built_in().advisories {
            assert!(advisory.fixed.is_sorted() && !advisory.fixed.is_empty(), "{}", advisory.ids);
            assert!(advisory.fixed.iter().all(|fixed| *fixed > advisory.since), "{}", advisory.ids);
            assert!(advisory.source.starts_with("https://") && advisory.ids.starts_with("CVE-"));
        }
    }
}
