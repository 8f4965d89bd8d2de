//! The seccomp filter that a container's runtime was asked to load, and the `AppArmor` profile.
//!
//! With no-new-privileges the filter is loaded in the last moment before the program, so the kernel
//! cannot report it yet. Podman's inspection does not report what the runtime gets; the runtime's
//! configuration does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sandbox_files::host_path::Resolver;
use serde::Deserialize;
use serde_json::Value;

/// Far more than any configuration or profile has.
const LARGEST: u64 = 16 << 20;

/// The compared parts of a filter: of the runtime's configuration, or of the profile that an engine
/// derives it from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::container) struct Filter {
    default_action: String,
    #[serde(default)]
    default_errno_ret: Option<u32>,
    /// The name of the error, in profiles only.
    #[serde(default)]
    default_errno: Option<String>,
    #[serde(default)]
    architectures: Option<BTreeSet<String>>,
    /// The newer form of a profile's architectures.
    #[serde(default)]
    arch_map: Option<Vec<Architecture>>,
    #[serde(default)]
    syscalls: Option<Vec<Rule>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Architecture {
    architecture: String,
    #[serde(default)]
    sub_architectures: Option<Vec<String>>,
}

/// The action for some calls.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    names: Option<BTreeSet<String>>,
    /// The older form in a profile.
    #[serde(default)]
    name: Option<String>,
    action: String,
    #[serde(default)]
    args: Option<Vec<Argument>>,
    #[serde(default)]
    errno_ret: Option<u32>,
    /// The name of the error, in profiles only.
    #[serde(default)]
    errno: Option<String>,
    /// Conditions are in profiles only.
    #[serde(default)]
    includes: Option<Condition>,
    #[serde(default)]
    excludes: Option<Condition>,
}

/// The required value of an argument of the call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    index: u32,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

/// The containers that a rule of a profile applies to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
struct Condition {
    #[serde(default)]
    caps: Option<BTreeSet<String>>,
    /// The machine's architecture, the kernel's version.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl Filter {
    /// Whether it is derived from `profile` for a container with `capabilities` (`CAP_…`): each of
    /// its rules is a rule of the profile that applies to such a container, and all rules of the
    /// profile that apply are present. Rules that depend on the architecture or the version of the
    /// kernel may be missing.
    pub(in crate::container) fn is_made_from(&self, profile: &Self, capabilities: &BTreeSet<String>) -> bool {
        let (certain, possible): (Vec<_>, Vec<_>) = profile
            .rules()
            .filter_map(|rule| Some((rule, rule.is_for(capabilities)?)))
            .partition(|&(_, is_certain)| is_certain);
        let is_loaded =
            |rule: &Rule, call| self.rules().any(|loaded| loaded.is_made_from(rule) && loaded.has(call));
        let is_of_profile = |loaded: &Rule, call| {
            let mut rules = certain.iter().chain(&possible);
            rules.any(|(rule, _)| loaded.is_made_from(rule) && rule.has(call))
        };
        let (is, planned) = (self.architectures(), profile.architectures());
        self.default_action == profile.default_action
            && is_error(self.default_errno_ret, profile.default_errno_ret, profile.default_errno.as_deref())
            && is.is_subset(&planned)
            && self.rules().all(|loaded| loaded.calls().all(|call| is_of_profile(loaded, call)))
            && certain.iter().all(|(rule, _)| rule.calls().all(|call| is_loaded(rule, call)))
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.syscalls.iter().flatten()
    }

    fn architectures(&self) -> BTreeSet<&str> {
        let mapped = self.arch_map.iter().flatten().flat_map(|native| {
            let others = native.sub_architectures.iter().flatten();
            others.chain([&native.architecture])
        });
        let listed = self.architectures.iter().flatten();
        listed.chain(mapped).map(String::as_str).collect()
    }
}

impl Rule {
    fn calls(&self) -> impl Iterator<Item = &str> {
        let names = self.names.iter().flatten();
        names.chain(&self.name).map(String::as_str)
    }

    fn has(&self, call: &str) -> bool {
        let is_named = self.names.as_ref().is_some_and(|names| names.contains(call));
        is_named || self.name.as_deref() == Some(call)
    }

    /// Whether it has the action that `profile` has for these calls.
    fn is_made_from(&self, profile: &Self) -> bool {
        self.action == profile.action
            && self.args.as_deref().unwrap_or_default() == profile.args.as_deref().unwrap_or_default()
            && is_error(self.errno_ret, profile.errno_ret, profile.errno.as_deref())
    }

    /// Whether an engine applies it to a container with `capabilities`: `None` if it does not,
    /// false if that depends on other conditions too.
    fn is_for(&self, capabilities: &BTreeSet<String>) -> Option<bool> {
        let (includes, excludes) = (self.includes.as_ref(), self.excludes.as_ref());
        let caps = |condition: Option<&Condition>| condition.and_then(|condition| condition.caps.clone());
        let has_all = caps(includes).is_none_or(|caps| caps.is_subset(capabilities));
        let has_none = caps(excludes).is_none_or(|caps| caps.is_disjoint(capabilities));
        let is_certain = !includes.into_iter().chain(excludes).any(Condition::has_others);
        (has_all && has_none).then_some(is_certain)
    }
}

impl Condition {
    fn has_others(&self) -> bool {
        let says_nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        !self.others.values().all(says_nothing)
    }
}

/// Whether the error `is` is that of a profile, which has a number, or a name that the engine
/// looked up.
fn is_error(is: Option<u32>, number: Option<u32>, name: Option<&str>) -> bool {
    match name {
        None | Some("") => is == number,
        Some(_) => is.is_some_and(|number| number > 0),
    }
}

/// The security settings that a runtime was asked to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::container) struct Requested {
    pub(in crate::container) filter: Option<Filter>,
    pub(in crate::container) apparmor: Option<String>,
}

/// The request in the runtime's configuration at `path`, as the process `monitor` sees it.
pub(in crate::container) fn requested(proc: &Path, monitor: u32, path: &str) -> Result<Requested, String> {
    #[derive(Deserialize)]
    struct Configuration {
        linux: Linux,
        #[serde(default)]
        process: Process,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Process {
        #[serde(default)]
        apparmor_profile: Option<String>,
    }
    #[derive(Deserialize)]
    struct Linux {
        #[serde(default)]
        seccomp: Option<Filter>,
    }
    let root = proc.join(monitor.to_string()).join("root");
    let path = root.join(path.trim_start_matches('/'));
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut text = String::new();
    let file = File::open(&path).map_err(|error| failed(&error))?;
    file.take(LARGEST).read_to_string(&mut text).map_err(|error| failed(&error))?;
    // A parser's message would quote the document, which contains environment variables.
    let configuration: Configuration =
        serde_json::from_str(&text).map_err(|_| failed(&"not a configuration of a container"))?;
    Ok(Requested { filter: configuration.linux.seccomp, apparmor: configuration.process.apparmor_profile })
}

/// The filter in the profile at `path`, if this program sees the same file as the engine's service.
/// In folders that `resolver` knows as writable by tasks, no link is followed.
pub(in crate::container) fn profile(resolver: &Resolver, path: &Path) -> Result<Filter, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let found = resolver.find(path).and_then(|found| found.read(LARGEST));
    let text = found.map_err(|error| failed(error.problem()))?;
    serde_json::from_slice(&text).map_err(|_| failed(&"not a profile"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn filter(text: &str) -> Filter {
        serde_json::from_str(text).unwrap()
    }

    const PROFILE: &str = r#"{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "defaultErrno": "", "comment": "",
        "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X32"]}], "syscalls": [
        {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW", "args": [], "comment": "", "includes": {}, "excludes": {}},
        {"name": "stat", "action": "SCMP_ACT_ALLOW", "args": null},
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW",
            "args": [{"index": 0, "value": 7, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}], "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
        {"names": ["clone", "mount"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"], "arches": []}},
        {"names": ["arm_call"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["arm64"]}},
        {"names": ["keyctl"], "action": "SCMP_ACT_ERRNO", "errno": "EPERM", "errnoRet": null},
        {"names": ["bpf"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}"#;

    /// The filter that an engine derives from it.
    const LOADED: &str = r#"{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [
        {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["stat"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 7, "op": "SCMP_CMP_MASKED_EQ"}]},
        {"names": ["keyctl"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        {"names": ["bpf"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}"#;

    #[test]
    fn filter_that_differs_from_its_profile_is_rejected() {
        let profile = filter(PROFILE);
        let no_capabilities = BTreeSet::new();
        for (from, to, good) in [
            ("", "", true),
            (r#"["read", "write"]"#, r#"["write", "read", "stat"]"#, true),
            (r#"["bpf"]"#, r#"["bpf"], "args": []"#, true),
            // The engine evaluates conditions that are not about capabilities.
            (r#"["stat"]"#, r#"["stat", "arm_call"]"#, true),
            (r#"["read", "write"]"#, r#"["read", "mount"]"#, false),
            (r#"["read", "write"]"#, r#"["read"]"#, false),
            (r#"["bpf"], "action": "SCMP_ACT_ERRNO""#, r#"["bpf"], "action": "SCMP_ACT_LOG""#, false),
            (r#"["bpf"]"#, r#"["other"]"#, false),
            (r#"["keyctl"]"#, r#"["keyctl", "clone"]"#, false),
            (r#""value": 7"#, r#""value": 3"#, false),
            (r#""index": 0"#, r#""index": 1"#, false),
            ("MASKED_EQ", "NE", false),
            (r#""value": 7"#, r#""value": 7, "valueTwo": 7"#, false),
            (r#", "args": [{"index": 0, "value": 7, "op": "SCMP_CMP_MASKED_EQ"}]"#, "", false),
            (r#"["stat"]"#, r#"["stat", "clone"]"#, false),
            (r#""defaultErrnoRet": 38"#, r#""defaultErrnoRet": 1"#, false),
            (r#""defaultAction": "SCMP_ACT_ERRNO""#, r#""defaultAction": "SCMP_ACT_ALLOW""#, false),
            (
                r#"["bpf"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1"#,
                r#"["bpf"], "action": "SCMP_ACT_ERRNO", "errnoRet": 0"#,
                false,
            ),
            (
                r#"["keyctl"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1"#,
                r#"["keyctl"], "action": "SCMP_ACT_ERRNO""#,
                false,
            ),
            (r#"["SCMP_ARCH_X86_64"]"#, r#"["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]"#, false),
        ] {
            assert!(LOADED.contains(from), "{from}");
            let loaded = filter(&LOADED.replacen(from, to, 1));
            assert_eq!(loaded.is_made_from(&profile, &no_capabilities), good, "{from} -> {to}");
        }
        let nothing =
            filter(r#"{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "syscalls": null}"#);
        assert!(!nothing.is_made_from(&profile, &no_capabilities));
    }

    #[test]
    fn rule_for_a_capability_is_required_with_it_and_rejected_without() {
        let profile = filter(PROFILE);
        let (no_capabilities, admin) = (BTreeSet::new(), BTreeSet::from(["CAP_SYS_ADMIN".to_owned()]));
        let restricted = filter(LOADED);
        let conditional = r#"["clone"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 7, "op": "SCMP_CMP_MASKED_EQ"}]"#;
        let free = filter(&LOADED.replace(conditional, r#"["clone", "mount"], "action": "SCMP_ACT_ALLOW""#));
        for (loaded, capabilities, good) in [
            (&restricted, &no_capabilities, true),
            (&restricted, &admin, false),
            (&free, &no_capabilities, false),
            (&free, &admin, true),
        ] {
            assert_eq!(loaded.is_made_from(&profile, capabilities), good, "{capabilities:?}");
        }
    }

    #[test]
    fn profile_that_is_not_a_regular_file_or_replaceable_by_a_task_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let trusting = Resolver::default();
        let wary = Resolver::new([dir.path()]);
        fs::write(path("good"), PROFILE).unwrap();
        symlink(path("good"), path("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RUSR).unwrap();
        fs::write(path("bad"), "{}").unwrap();
        for (name, resolver, problem) in [
            ("good", &trusting, None),
            ("good", &wary, None),
            ("link", &trusting, None),
            ("link", &wary, Some("symbolic link")),
            ("pipe", &trusting, Some("not a regular file")),
            ("bad", &trusting, Some("not a profile")),
            ("none", &trusting, Some("No such file")),
        ] {
            let read = profile(resolver, &path(name));
            match problem {
                None => assert!(read.is_ok(), "{name}: {read:?}"),
                Some(problem) => assert!(read.as_ref().unwrap_err().contains(problem), "{name}: {read:?}"),
            }
        }
    }

    #[test]
    fn configuration_is_read_through_the_monitors_root() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("6/root/storage");
        fs::create_dir_all(&folder).unwrap();
        let read = |text: &str| {
            fs::write(folder.join("config.json"), text).unwrap();
            requested(proc.path(), 6, "/storage/config.json")
        };
        let with = r#"{"linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64"]}}}"#;
        let asked = read(with).unwrap();
        assert_eq!((asked.filter.unwrap().default_action.as_str(), asked.apparmor), ("SCMP_ACT_ERRNO", None));
        let nothing = Requested { filter: None, apparmor: None };
        assert_eq!(read(r#"{"linux": {}}"#).unwrap(), nothing);
        let confined = read(r#"{"linux": {}, "process": {"apparmorProfile": "mine"}}"#).unwrap();
        assert_eq!(confined.apparmor.as_deref(), Some("mine"));
        for bad in ["", "{}", r#"{"linux": {"seccomp": 7}, "process": {"env": ["A=hunter2"]}}"#] {
            let error = read(bad).unwrap_err();
            assert!(error.contains("config.json") && !error.contains("hunter2"), "{error}");
        }
        assert!(requested(proc.path(), 5, "/storage/config.json").is_err());
    }
}
