//! Settings of a plan that an engine does not support: an error with the field and a hint, where
//! podman would ignore them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Once;

use crate::program::SUPERVISE;
use crate::spec::{Runtime, Seccomp, SshSigner, UserNamespace};
use sandbox_podman::{BindFacts, Capabilities, DiskLimits, Engine, EngineError, EngineFacts, Inspection};

use super::apparmor;
use super::error::ContainerError;
use super::plan::ContainerPlan;

const DISK: &str = "resource_limits.disk";
const APPARMOR: &str = "isolation.apparmor";

/// Logged once: it is the same for all containers.
static UNLIMITED: Once = Once::new();

/// Checks before the engine is called.
pub(super) fn before_creation(plan: &ContainerPlan, engine: &Engine) -> Result<(), ContainerError> {
    if plan.isolation.seccomp == Seccomp::Sandbox {
        return Err(ContainerError::Unsupported {
            field: "isolation.seccomp",
            engine: name(engine.capabilities()),
            problem: "was not given the file of the sandbox's own profile".to_owned(),
            hint: "connect to it through `Sandbox::start`, which writes one".to_owned(),
        });
    }
    if let Some(profile) = &plan.isolation.apparmor
        && !apparmor::is_enabled(Path::new("/sys"))
    {
        return Err(ContainerError::Unsupported {
            field: APPARMOR,
            engine: name(engine.capabilities()),
            problem: format!(
                "cannot confine a container by `{profile}`: the kernel has no AppArmor, or it is disabled"
            ),
            hint: "boot one with `lsm=…,apparmor`, or leave it out".to_owned(),
        });
    }
    Ok(())
}

/// Known limitations of the engine's storage. Queries the engine only if it matters.
pub(super) async fn storage(plan: &ContainerPlan, engine: &Engine) -> Result<(), ContainerError> {
    if plan.disk.is_none() {
        return Ok(());
    }
    without_quotas(&engine.facts().await?, engine.capabilities()).map_or(Ok(()), Err)
}

fn without_quotas(facts: &EngineFacts, capabilities: &Capabilities) -> Option<ContainerError> {
    (facts.disk_limits() == DiskLimits::Impossible).then(|| ContainerError::Unsupported {
        field: DISK,
        engine: name(capabilities),
        problem: format!(
            "cannot limit the disk of a container: its storage is {}, which has no quotas",
            facts.storage()
        ),
        hint: DiskLimits::HINT.to_owned(),
    })
}

/// Checks that need a created container. Default limits of the sandbox are removed from the plan if
/// the engine has none.
pub(super) fn after_creation(
    plan: &mut ContainerPlan,
    engine: &Engine,
    is: &Inspection,
) -> Result<(), ContainerError> {
    if let Some(field) = ignored_limit(plan, &is.host_config) {
        unlimited(plan, engine.capabilities(), field)?;
        (plan.memory, plan.nano_cpus, plan.pids) = (None, None, None);
    }
    if plan.disk.is_some()
        && let Some(volume) = is.mounts.iter().find(|mount| mount.kind == "volume")
    {
        return Err(ContainerError::Unsupported {
            field: DISK,
            engine: name(engine.capabilities()),
            problem: format!(
                "keeps the volume that the image declares at `{}` outside of the container, where no limit holds",
                volume.destination
            ),
            hint: "mount a folder or a tmpfs there, or use an image without `VOLUME`".to_owned(),
        });
    }
    refuse_in_gvisor(plan, engine, is)?;
    let is_executors = plan.entrypoint.as_deref().is_some_and(|words| words == SUPERVISE);
    match plan.isolation.runtime {
        None if is_executors && is.runtime_name() == Runtime::Runsc.as_str() => {
            Err(ContainerError::Unsupported {
                field: "isolation.runtime",
                engine: name(engine.capabilities()),
                problem: "runs all containers with gVisor, which the configuration of an executor must state"
                    .to_owned(),
                hint: "set `isolation.runtime` to `runsc`, and use a container for each command".to_owned(),
            })
        }
        Some(planned) if planned.as_str() != is.runtime_name() => Err(ContainerError::Unsupported {
            field: "isolation.runtime",
            engine: name(engine.capabilities()),
            problem: format!(
                "runs all containers with `{}`, and its API cannot select another for one of them",
                is.runtime
            ),
            hint: format!(
                "start its service with `podman --runtime {planned} system service`, or write `runtime = \"{planned}\"` under \
                 `[engine]` in its containers.conf"
            ),
        }),
        _ => Ok(()),
    }
}

/// The specification allows for gVisor only if it requires it.
fn refuse_in_gvisor(plan: &ContainerPlan, engine: &Engine, is: &Inspection) -> Result<(), ContainerError> {
    let has_signer = plan.mounts.iter().any(|mount| mount.container_path() == SshSigner::FOLDER);
    let refused = [
        ("ssh_signer", has_signer, SshSigner::NOT_IN_GVISOR),
        (
            APPARMOR,
            plan.isolation.apparmor.is_some(),
            "it has a kernel of its own, which has no AppArmor; leave it out",
        ),
    ];
    match refused.into_iter().find(|(_, asked, _)| *asked) {
        Some((field, _, hint)) if is.runtime_name() == Runtime::Runsc.as_str() => {
            Err(ContainerError::Unsupported {
                field,
                engine: name(engine.capabilities()),
                problem: "runs all containers with gVisor".to_owned(),
                hint: hint.to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// Checks that need a container that is set up: a rootless engine that cannot create control groups
/// reports limits that are not enforced.
pub(super) fn check_controls(
    plan: &ContainerPlan,
    engine: &Engine,
    controlled: &BTreeSet<&str>,
) -> Result<(), ContainerError> {
    uncontrolled_limit(plan, controlled).map_or(Ok(()), |field| unlimited(plan, engine.capabilities(), field))
}

/// An error, unless the limit is a default of the sandbox.
fn unlimited(
    plan: &ContainerPlan,
    capabilities: &Capabilities,
    field: &'static str,
) -> Result<(), ContainerError> {
    if !plan.labels.role().has_default_limits() {
        return Err(ContainerError::Unsupported {
            field,
            engine: name(capabilities),
            problem: "ignores it: its containers have no control groups of their own here".to_owned(),
            hint: EngineFacts::DELEGATION.to_owned(),
        });
    }
    UNLIMITED.call_once(|| {
        tracing::info!(
            "the engine ignores limits of memory, processors and processes, also of the proxy; {}",
            EngineFacts::DELEGATION
        );
    });
    Ok(())
}

/// The first requested limit whose controller has no control group of the container's own.
fn uncontrolled_limit(plan: &ContainerPlan, controlled: &BTreeSet<&str>) -> Option<&'static str> {
    [
        ("resource_limits.memory", plan.memory.is_some(), "memory"),
        ("resource_limits.cpus", plan.nano_cpus.is_some(), "cpu"),
        ("resource_limits.pids_limit", plan.pids.is_some(), "pids"),
    ]
    .into_iter()
    .find_map(|(field, asked, controller)| (asked && !controlled.contains(controller)).then_some(field))
}

/// The first requested limit that the container does not have at all.
fn ignored_limit(plan: &ContainerPlan, is: &BindFacts) -> Option<&'static str> {
    [
        ("resource_limits.memory", plan.memory.is_some(), is.memory),
        ("resource_limits.cpus", plan.nano_cpus.is_some(), is.nano_cpus),
        ("resource_limits.pids_limit", plan.pids.is_some(), is.pids_limit),
    ]
    .into_iter()
    .find_map(|(field, asked, is)| (asked && is == 0).then_some(field))
}

/// The error of a failure that follows from a field of the plan.
pub(super) fn explain(error: EngineError, plan: &ContainerPlan, engine: &Engine) -> ContainerError {
    meaning(error.message().unwrap_or_default(), plan)
        .map(|(field, problem, hint)| ContainerError::Unsupported {
            field,
            engine: name(engine.capabilities()),
            problem,
            hint,
        })
        .unwrap_or(ContainerError::Engine(error))
}

fn meaning(message: &str, plan: &ContainerPlan) -> Option<(&'static str, String, String)> {
    let isolation = &plan.isolation;
    let mentions = |words: &str| message.contains(words);
    if !isolation.ulimits.is_empty() && (mentions("setrlimit") || mentions("rlimit type")) {
        let which = isolation
            .ulimits
            .iter()
            .map(|limit| limit.kind.name())
            .find(|name| message.contains(&format!("RLIMIT_{}", name.to_ascii_uppercase())));
        let problem = match which {
            Some(which) => format!("may not set `{which}` as high as requested"),
            None => format!("may not set a limit as high as requested: {message}"),
        };
        return Some((
            "isolation.ulimits",
            problem,
            "stay at or below the hard limit of its service, or give the service CAP_SYS_RESOURCE".to_owned(),
        ));
    }
    if isolation.seccomp != Seccomp::Default && mentions("seccomp") {
        return Some((
            "isolation.seccomp",
            format!("cannot use the profile: {message}"),
            "the engine's service reads it: put a valid one where the service sees it, at the same path"
                .to_owned(),
        ));
    }
    if let Some(profile) = &isolation.apparmor
        && message.to_ascii_lowercase().contains("apparmor")
    {
        let hint = if mentions("not loaded") {
            "load it on the engine's host: `apparmor_parser --replace FILE`"
        } else {
            "podman asks for one only as root: use a service that runs as root, or leave it out"
        };
        let problem = format!("cannot confine a container by `{profile}`: {message}");
        return Some((APPARMOR, problem, hint.to_owned()));
    }
    if !isolation.devices.is_empty() && mentions("CDI") {
        return Some((
            "isolation.devices",
            format!("does not know the device: {message}"),
            "describe it under /etc/cdi or /run/cdi of the engine's host, as `nvidia-ctk cdi generate` does"
                .to_owned(),
        ));
    }
    if isolation.user_namespace != UserNamespace::Host && mentions("ID-mapped copy") {
        return Some((
            "isolation.user_namespace",
            "does not have these users, because it is rootless".to_owned(),
            "leave it out: the users of its containers already differ from those of the host".to_owned(),
        ));
    }
    if mentions("runsc") && mentions(" start ") && mentions("exit status") {
        return Some((
            "isolation.runtime",
            format!("failed to start the program, and gVisor reports no cause: {message}"),
            "the program must be in the image, and its user must be allowed to read it".to_owned(),
        ));
    }
    plan.disk.and_then(|bytes| of_disk(message, bytes))
}

/// The limit is set at the creation, and on btrfs found too small at the set-up.
fn of_disk(message: &str, bytes: u64) -> Option<(&'static str, String, String)> {
    let mentions = |words: &str| message.to_ascii_lowercase().contains(words);
    // btrfs counts late: the runtime may be the first to notice files that were not written to the
    // container's subvolume.
    let is_incomplete = || mentions("btrfs/subvolumes/") && mentions("no such file or directory");
    if mentions("quota exceeded") || is_incomplete() {
        return Some((
            DISK,
            format!("has no room for the container in {bytes} bytes"),
            "raise it: on btrfs the image counts too".to_owned(),
        ));
    }
    ["storage-opt", "quota", "qgroup"].into_iter().any(mentions).then(|| {
        (DISK, format!("cannot limit the disk of a container: {message}"), DiskLimits::HINT.to_owned())
    })
}

fn name(capabilities: &Capabilities) -> String {
    format!("podman {}", capabilities.version())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::a_plan;
    use crate::labels::Role;
    use crate::spec::{Device, Isolation, Ulimit, UlimitKind};

    fn plan(isolation: Isolation) -> ContainerPlan {
        ContainerPlan { isolation, ..a_plan() }
    }

    #[test]
    fn storage_without_quotas_is_named_with_a_hint() {
        let capabilities = Capabilities::new("5.4.2".parse().unwrap());
        let mut facts = EngineFacts::default();
        "overlay".clone_into(&mut facts.storage_driver);
        "extfs".clone_into(&mut facts.storage_file_system);
        let text = without_quotas(&facts, &capabilities).unwrap().to_string();
        for part in ["resource_limits.disk", "podman 5.4.2", "overlay on extfs", "pquota"] {
            assert!(text.contains(part), "{text}");
        }
        "xfs".clone_into(&mut facts.storage_file_system);
        assert!(without_quotas(&facts, &capabilities).is_none());
    }

    #[test]
    fn limit_without_a_control_group_is_an_error_with_field_and_fix() {
        let limited = |memory, cpus, pids| ContainerPlan { memory, nano_cpus: cpus, pids, ..a_plan() };
        let all = BTreeSet::from(["memory", "cpu", "pids"]);
        for (plan, controlled, expected) in [
            (limited(None, None, None), BTreeSet::new(), None),
            (limited(Some(1), Some(1), Some(1)), all, None),
            (limited(Some(1), None, None), BTreeSet::new(), Some("resource_limits.memory")),
            (limited(Some(1), Some(1), None), BTreeSet::from(["memory"]), Some("resource_limits.cpus")),
            (
                limited(None, None, Some(1)),
                BTreeSet::from(["memory", "cpu"]),
                Some("resource_limits.pids_limit"),
            ),
        ] {
            assert_eq!(uncontrolled_limit(&plan, &controlled), expected, "{controlled:?}");
        }
        let capabilities = Capabilities::new("5.4.2".parse().unwrap());
        let mut plan = limited(Some(1), None, None);
        let text = unlimited(&plan, &capabilities, "resource_limits.memory").unwrap_err().to_string();
        for part in ["resource_limits.memory", "podman 5.4.2", "loginctl enable-linger"] {
            assert!(text.contains(part), "{text}");
        }
        for role in [Role::Proxy, Role::Build] {
            plan.labels = plan.labels.with_role(role);
            assert!(unlimited(&plan, &capabilities, "resource_limits.memory").is_ok());
        }
    }

    #[test]
    fn failure_is_attributed_to_its_field() {
        let limited = plan(Isolation {
            ulimits: vec![Ulimit::fixed(UlimitKind::OpenFiles, 1 << 40)],
            ..Isolation::agent()
        });
        let filtered = plan(Isolation { seccomp: Seccomp::Profile("/no.json".into()), ..Isolation::agent() });
        let unfiltered = plan(Isolation { seccomp: Seccomp::Default, ..Isolation::agent() });
        let with_device =
            plan(Isolation { devices: vec![Device::Cdi("a/b=c".to_owned())], ..Isolation::agent() });
        let confined = plan(Isolation { apparmor: Some("mine".parse().unwrap()), ..Isolation::agent() });
        let bounded = ContainerPlan { disk: Some(1 << 20), ..plan(Isolation::agent()) };
        let mapped = plan(Isolation {
            user_namespace: UserNamespace::Private { first: 300_000, size: 65_536 },
            ..Isolation::agent()
        });
        for (plan, message, expected) in [
            (
                &mapped,
                "creating container storage: creating an ID-mapped copy of layer \"d2\": creating copy of template layer",
                Some("isolation.user_namespace"),
            ),
            (
                &bounded,
                "creating container storage: creating read-write layer with ID \"5c\": --storage-opt is supported only for overlay over \
                 xfs with 'pquota' mount option",
                Some(DISK),
            ),
            (
                &bounded,
                "mounting storage for container d0: failed to limit qgroup for &{{{}}}: disk quota exceeded",
                Some(DISK),
            ),
            (&unfiltered, "crun: write `/x`: Disk quota exceeded", None),
            (
                &bounded,
                "crun: open `/x/storage/btrfs/subvolumes/ed/etc/hosts`: No such file or directory",
                Some(DISK),
            ),
            (
                &limited,
                "crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied",
                Some("isolation.ulimits"),
            ),
            (
                &limited,
                "runc: error setting rlimit type 7: operation not permitted",
                Some("isolation.ulimits"),
            ),
            (
                &filtered,
                "container create: opening seccomp profile failed: open /no.json: no such file or directory",
                Some("isolation.seccomp"),
            ),
            (
                &with_device,
                "setting up CDI devices: unresolvable CDI devices a/b=c",
                Some("isolation.devices"),
            ),
            (
                &unfiltered,
                "`/usr/bin/runsc --network=host start 8c93` failed: exit status 128",
                Some("isolation.runtime"),
            ),
            (
                &confined,
                "generating spec: AppArmor profile \"mine\" specified but not loaded",
                Some(APPARMOR),
            ),
            (
                &confined,
                "apparmor profile \"mine\" specified, but Apparmor is not enabled on this system",
                Some(APPARMOR),
            ),
            (&unfiltered, "AppArmor profile \"x\" specified but not loaded", None),
            (&unfiltered, "crun: cannot start a container that has stopped: exit status 1", None),
            (&limited, "netavark: no space left", None),
            (&unfiltered, "opening seccomp profile failed", None),
        ] {
            assert_eq!(meaning(message, plan).map(|(field, ..)| field), expected, "{message}");
        }
    }
}
