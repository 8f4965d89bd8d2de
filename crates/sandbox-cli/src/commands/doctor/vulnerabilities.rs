//! Versions of the engine, its runtime and the kernel with known vulnerabilities that matter to a sandbox.
//!
//! A version number cannot show that a distribution backported a fix, so all of this is a warning. What a number cannot show at all, such
//! as that of a distribution's own kernel series, is not judged.

use sandbox::diagnostics::EngineFacts;

use super::report::Check;

const NAME: &str = "vulnerabilities";

/// Major, minor, patch.
type Number = (u32, u32, u32);

/// Vulnerabilities of one product that were fixed together.
struct Advisory {
    product: &'static str,
    ids: &'static str,
    /// What an attacker gets from it.
    impact: &'static str,
    since: Number,
    /// The first fixed version of each release series.
    fixed: &'static [Number],
    /// Where these versions are from.
    source: &'static str,
}

const ADVISORIES: [Advisory; 11] = [
    Advisory {
        product: "podman",
        ids: "CVE-2026-57231",
        impact: "rated high, 7.5 of 10",
        since: (0, 0, 0),
        fixed: &[(5, 8, 4)],
        source: "https://github.com/flatcar/Flatcar/issues/2083",
    },
    Advisory {
        product: "podman",
        ids: "CVE-2026-44517",
        impact: "an image build can read host files outside of its context",
        since: (0, 0, 0),
        fixed: &[(5, 8, 3)],
        source: "https://github.com/flatcar/Flatcar/issues/2083",
    },
    Advisory {
        product: "podman",
        ids: "CVE-2025-9566",
        impact: "`podman kube play` can overwrite host files",
        since: (4, 0, 0),
        fixed: &[(5, 6, 1)],
        source: "https://github.com/flatcar/Flatcar/issues/1890",
    },
    Advisory {
        product: "podman",
        ids: "CVE-2024-11218",
        impact: "an image build can break out",
        since: (0, 0, 0),
        fixed: &[(5, 3, 2)],
        source: "https://github.com/flatcar/Flatcar/issues/1624",
    },
    Advisory {
        product: "podman",
        ids: "CVE-2024-9675",
        impact: "an image build can reach the host's file system",
        since: (0, 0, 0),
        fixed: &[(5, 2, 5)],
        source: "https://github.com/coreos/fedora-coreos-tracker/issues/1821",
    },
    Advisory {
        product: "runc",
        ids: "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881",
        impact: "a container can break out",
        since: (0, 0, 0),
        fixed: &[(1, 2, 8), (1, 3, 3)],
        source: "https://github.com/containerd/nerdctl/pull/4582 and https://github.com/wolfi-dev/os/pull/71244",
    },
    Advisory {
        product: "crun",
        ids: "CVE-2026-30892",
        impact: "`exec` as user 1 runs as root",
        since: (1, 19, 0),
        fixed: &[(1, 27, 0)],
        source: "https://github.com/flatcar/Flatcar/issues/2061",
    },
    Advisory {
        product: "crun",
        ids: "CVE-2025-24965",
        impact: "an image can break out of the krun handler",
        since: (0, 0, 0),
        fixed: &[(1, 20, 0)],
        source: "https://github.com/flatcar/Flatcar/issues/1675",
    },
    Advisory {
        product: "kernel",
        ids: "CVE-2026-31431 (Copy Fail)",
        impact: "a local user becomes root where AF_ALG sockets are allowed, as in image builds",
        since: (4, 14, 0),
        fixed: &[(6, 12, 85), (6, 18, 22), (6, 19, 12)],
        source: "https://github.com/openwrt/openwrt/pull/23193 and https://github.com/apple/containerization/issues/726",
    },
    Advisory {
        product: "kernel",
        ids: "CVE-2026-43284 (Dirty Frag)",
        impact: "a local user becomes root",
        since: (0, 0, 0),
        fixed: &[(6, 6, 138), (6, 12, 87), (6, 18, 28), (7, 0, 5)],
        source: "https://github.com/void-linux/void-packages/issues/60423",
    },
    Advisory {
        product: "kernel",
        ids: "CVE-2026-43500 (Dirty Frag, RxRPC)",
        impact: "a local user becomes root",
        since: (0, 0, 0),
        fixed: &[(6, 18, 29), (7, 0, 6)],
        source: "https://github.com/flatcar/Flatcar/issues/2126",
    },
];

/// What is known of these versions. `podman` is the engine's.
pub(super) fn check(podman: &str, facts: &EngineFacts) -> Check {
    let runtime = facts.runtime.rsplit('/').next().unwrap_or_default();
    let installed =
        [("podman", podman), (runtime, facts.runtime_version.as_str()), ("kernel", facts.kernel.as_str())];
    let found: Vec<String> = installed.iter().flat_map(|(product, version)| of(product, version)).collect();
    if found.is_empty() {
        return Check::ok(NAME, "none known for these versions of podman, its runtime and the kernel");
    }
    Check::warn(
        NAME,
        format!(
            "these versions may be affected, unless your distribution backported the fix:\n{}",
            found.join("\n")
        ),
        "update what is listed; your distribution's security tracker says which of its packages have the fix",
    )
}

/// A line for each advisory about this version of the product.
fn of(product: &str, version: &str) -> Vec<String> {
    let Some(number) = number(version) else {
        return Vec::new();
    };
    ADVISORIES
        .iter()
        .filter(|advisory| advisory.product == product && advisory.affects(number))
        .map(|advisory| {
            let fixed: Vec<String> = advisory.fixed.iter().map(shown).collect();
            let Advisory { ids, impact, source, .. } = advisory;
            format!("{product} {version}: {ids}, fixed in {}: {impact} ({source})", fixed.join(", "))
        })
        .collect()
}

impl Advisory {
    fn affects(&self, version: Number) -> bool {
        let series = |number: &Number| (number.0, number.1);
        if version < self.since {
            return false;
        }
        match self.fixed.iter().find(|fixed| series(fixed) == series(&version)) {
            // Distributions that stay with a first release count their own fixes behind it.
            Some(_) if self.product == "kernel" && version.2 == 0 => false,
            Some(fixed) => version < *fixed,
            // Not every release of podman and the runtimes is patched, but kernels have many series that are not listed.
            None => self.product != "kernel" && self.fixed.iter().all(|fixed| version < *fixed),
        }
    }
}

fn shown((major, minor, patch): &Number) -> String {
    format!("{major}.{minor}.{patch}")
}

/// `4.3.1`, `1.27`, `6.12.85+deb13-amd64`
fn number(version: &str) -> Option<Number> {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.');
    let mut parts = version.get(..end.unwrap_or(version.len()))?.split('.');
    let mut next = || parts.next().filter(|part| !part.is_empty());
    Some((next()?.parse().ok()?, next()?.parse().ok()?, next().unwrap_or("0").parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    fn ids(product: &str, version: &str) -> Vec<&'static str> {
        let number = number(version).unwrap();
        ADVISORIES
            .iter()
            .filter(|advisory| advisory.product == product && advisory.affects(number))
            .map(|advisory| advisory.ids)
            .collect()
    }

    #[test]
    fn versions_are_judged_by_their_release_series() {
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
            // Of a distribution, or of a series that is not listed: the number says nothing.
            ("kernel", "6.12.0", 0),
            ("kernel", "6.8.12", 0),
            ("kernel", "5.14.0", 0),
            ("youki", "0.1.0", 0),
        ] {
            assert_eq!(
                ids(product, version).len(),
                expected,
                "{product} {version}: {:?}",
                ids(product, version)
            );
        }
    }

    #[test]
    fn versions_are_read_as_they_are_written() {
        for (text, expected) in [
            ("4.3.1+ds1-8", Some((4, 3, 1))),
            ("1.27", Some((1, 27, 0))),
            ("6.12.85+deb13-amd64", Some((6, 12, 85))),
            ("6.6.87.2-microsoft-standard-WSL2", Some((6, 6, 87))),
            ("1.4.0-rc.2", Some((1, 4, 0))),
            ("release-20250101", None),
            ("", None),
            ("5", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn a_warning_names_version_fix_and_source() {
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
        for advisory in &ADVISORIES {
            assert!(advisory.fixed.is_sorted() && !advisory.fixed.is_empty(), "{}", advisory.ids);
            assert!(advisory.fixed.iter().all(|fixed| *fixed > advisory.since), "{}", advisory.ids);
            assert!(advisory.source.starts_with("https://") && advisory.ids.starts_with("CVE-"));
        }
    }
}
