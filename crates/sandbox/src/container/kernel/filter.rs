//! The filter of system calls that a container's runtime was told to load.
//!
//! With no-new-privileges it is loaded in the last moment before the program, so the kernel has nothing to tell yet. What podman tells in
//! an inspection is not what the runtime gets; this is.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;

/// No configuration and no profile is near this size.
const LARGEST: u64 = 16 << 20;

/// A filter, as far as it is compared.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::container) struct Filter {
    default_action: String,
    #[serde(default)]
    syscalls: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Rule {
    #[serde(default)]
    names: BTreeSet<String>,
    /// The older form of a profile.
    #[serde(default)]
    name: Option<String>,
}

impl Filter {
    /// Whether it is what a runtime is told of `profile`: rules for other architectures and for capabilities that the container lacks are
    /// left out of it, and nothing is added.
    pub(in crate::container) fn is_made_from(&self, profile: &Self) -> bool {
        let calls = self.calls();
        self.default_action == profile.default_action
            && calls.is_subset(&profile.calls())
            && calls.is_empty() == profile.calls().is_empty()
    }

    fn calls(&self) -> BTreeSet<&str> {
        let rules = self.syscalls.iter();
        rules
            .flat_map(|rule| rule.names.iter().chain(&rule.name))
            .map(String::as_str)
            .collect()
    }
}

/// The filter in the runtime's configuration at `path`, as the process `monitor` sees it.
pub(in crate::container) fn told_to_runtime(
    proc: &Path,
    monitor: u32,
    path: &str,
) -> Result<Option<Filter>, String> {
    #[derive(Deserialize)]
    struct Configuration {
        linux: Linux,
    }
    #[derive(Deserialize)]
    struct Linux {
        #[serde(default)]
        seccomp: Option<Filter>,
    }
    let root = proc.join(monitor.to_string()).join("root");
    let configuration: Configuration = read(&root.join(path.trim_start_matches('/')))?;
    Ok(configuration.linux.seccomp)
}

/// The filter in the profile at `path`, where this program sees what the engine's service does.
pub(in crate::container) fn profile(path: &Path) -> Option<Filter> {
    read(path).ok()
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(LARGEST)
        .read_to_string(&mut text)
        .map_err(|error| failed(&error))?;
    // A parser's message would quote the document, which holds environment variables.
    serde_json::from_str(&text).map_err(|_| failed(&"not a configuration of a container"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn filter(action: &str, calls: &[&str]) -> Filter {
        let text = serde_json::json!({"defaultAction": action, "syscalls": [{"names": calls, "action": "SCMP_ACT_ALLOW"}]});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_filter_that_permits_more_than_its_profile_is_not_made_from_it() {
        let profile = filter("SCMP_ACT_ERRNO", &["read", "write"]);
        for (is, good) in [
            (filter("SCMP_ACT_ERRNO", &["read", "write"]), true),
            (filter("SCMP_ACT_ERRNO", &["read"]), true),
            (filter("SCMP_ACT_ERRNO", &["read", "mount"]), false),
            (filter("SCMP_ACT_ALLOW", &["read", "write"]), false),
            (filter("SCMP_ACT_ERRNO", &[]), false),
        ] {
            assert_eq!(is.is_made_from(&profile), good, "{is:?}");
        }
        let older = r#"{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"name": "read"}]}"#;
        let older: Filter = serde_json::from_str(older).unwrap();
        assert!(older.is_made_from(&profile));
    }

    #[test]
    fn the_configuration_is_read_where_the_monitor_sees_it() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("6/root/storage");
        fs::create_dir_all(&folder).unwrap();
        let read = |text: &str| {
            fs::write(folder.join("config.json"), text).unwrap();
            told_to_runtime(proc.path(), 6, "/storage/config.json")
        };
        let with = r#"{"linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64"]}}}"#;
        assert_eq!(read(with).unwrap().unwrap().default_action, "SCMP_ACT_ERRNO");
        assert_eq!(read(r#"{"linux": {}}"#).unwrap(), None);
        for bad in [
            "",
            "{}",
            r#"{"linux": {"seccomp": 7}, "process": {"env": ["A=hunter2"]}}"#,
        ] {
            let error = read(bad).unwrap_err();
            assert!(
                error.contains("config.json") && !error.contains("hunter2"),
                "{error}"
            );
        }
        assert!(told_to_runtime(proc.path(), 5, "/storage/config.json").is_err());
    }
}
