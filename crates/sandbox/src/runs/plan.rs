//! Converts a run's specification to the plan of its container, and the engine's errors back to
//! fields of the specification. Pure.

use crate::container::{ContainerError, Detachment};
use crate::error::SandboxError;
use crate::spec::{Device, GpuRequest, RunSpec};
use crate::task::Detached;

/// The engine's name of a run.
pub(super) fn container_name(prefix: &str, run: &str) -> String {
    format!("{prefix}-run-{run}")
}

/// The properties of a run's container that a command's does not have.
pub(super) fn detached(spec: &RunSpec, name: String) -> Detached {
    Detached {
        name,
        detachment: Detachment {
            log_limit: Some(spec.log_limit.bytes()),
            annotations: spec
                .annotations
                .iter()
                .map(|(key, value)| (key.as_str().to_owned(), value.clone()))
                .collect(),
            sharing: spec.mounted().map(|volume| (volume.container_path.clone(), volume.sharing)).collect(),
        },
    }
}

/// Sets the field of the specification that `error` is about: to the engine, requested GPUs are
/// devices. An error about a device that the caller named is unchanged.
pub(super) fn describe_error(spec: &RunSpec, error: SandboxError) -> SandboxError {
    match (error, &spec.gpus) {
        (
            SandboxError::Container(ContainerError::Unsupported {
                field: "isolation.devices",
                engine,
                problem,
                ..
            }),
            Some(gpus),
        ) if is_of(gpus, spec, &problem) => {
            ContainerError::Unsupported { field: "gpus", engine, problem, hint: gpus.hint().to_owned() }
                .into()
        }
        (error, _) => error,
    }
}

/// Whether `problem` is about a device of the request. A problem without the name of a device is,
/// unless the isolation has CDI devices of its own.
fn is_of(gpus: &GpuRequest, spec: &RunSpec, problem: &str) -> bool {
    let named = |device: &&Device| matches!(device, Device::Cdi(name) if names(problem, name));
    let mut own = spec.launch.isolation.devices.iter();
    let has_own = own.clone().any(|device| matches!(device, Device::Cdi(_)));
    !own.any(|device| named(&device)) && (!has_own || gpus.devices().iter().any(|device| named(&device)))
}

/// Whether `text` contains the whole word `device`: `nvidia.com/gpu=1` is not in
/// `nvidia.com/gpu=10`.
fn names(text: &str, device: &str) -> bool {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || "._-:/=".contains(c);
    text.match_indices(device).any(|(start, found)| {
        let (before, after) = (text.get(..start), text.get(start + found.len()..));
        !before.is_some_and(|text| text.ends_with(of_a_name))
            && !after.is_some_and(|text| text.starts_with(of_a_name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{AnnotationKey, ByteSize, ImageTag, Isolation, Sharing, VolumeSpec};

    fn spec() -> RunSpec {
        RunSpec::new("r".parse().unwrap(), ImageTag::new("i"), ["true"])
            .volume(VolumeSpec::new("/srv", "/a"))
            .volume(VolumeSpec::new("/srv", "/b").private())
            .volume(VolumeSpec::new("/srv", "/c").private().live())
            .annotation(AnnotationKey::KrunCpus, "2")
            .log_limit(ByteSize::mib(1))
    }

    fn planned(spec: &RunSpec) -> Detachment {
        detached(spec, container_name("sandbox", "r")).detachment
    }

    #[test]
    fn detached_plan_has_a_name_a_log_limit_and_annotations() {
        let Detached { name, detachment } = detached(&spec(), container_name("sandbox", "r"));
        assert_eq!(name, "sandbox-run-r");
        assert_eq!(detachment.log_limit, Some(1 << 20));
        assert_eq!(detachment.annotations, [("krun.cpus".to_owned(), "2".to_owned())].into());
    }

    #[test]
    fn mounted_volumes_alone_are_relabelled() {
        let labels = |spec: &RunSpec| planned(spec).sharing;
        assert_eq!(
            labels(&spec()),
            [
                ("/a".to_owned(), Sharing::Shared),
                ("/b".to_owned(), Sharing::Private),
                ("/c".to_owned(), Sharing::Private)
            ]
            .into()
        );
        assert_eq!(labels(&spec().sealed()), [("/c".to_owned(), Sharing::Private)].into());
    }

    #[test]
    fn error_about_requested_gpus_names_their_field() {
        let refused = |field, problem: &str| {
            SandboxError::from(ContainerError::Unsupported {
                field,
                engine: "podman 5.4.2".to_owned(),
                problem: problem.to_owned(),
                hint: "use another".to_owned(),
            })
        };
        let gpus = || spec().gpus("nvidia:1".parse().unwrap());
        let with_own = gpus().isolation(Isolation {
            devices: vec![Device::node("/dev/kvm"), Device::Cdi("nvidia.com/gpu=10".to_owned())],
            ..Isolation::agent()
        });
        let devices = "isolation.devices";
        for (spec, field, problem, is_renamed) in [
            (&gpus(), devices, "unresolvable CDI devices nvidia.com/gpu=1", true),
            (&gpus(), devices, "no CDI registry", true),
            (&gpus(), "isolation.ulimits", "no nvidia.com/gpu=1", false),
            (&spec(), devices, "unresolvable CDI devices nvidia.com/gpu=1", false),
            (&with_own, devices, "unresolvable CDI devices nvidia.com/gpu=1", true),
            (&with_own, devices, "ignores `nvidia.com/gpu=1`", true),
            (&with_own, devices, "ignores `nvidia.com/gpu=10`", false),
            (&with_own, devices, "no nvidia.com/gpu=10, nvidia.com/gpu=1", false),
            (&with_own, devices, "no CDI registry", false),
        ] {
            let text = describe_error(spec, refused(field, problem)).to_string();
            let (field, hint) = if is_renamed { ("gpus", "nvidia-ctk") } else { (field, "use another") };
            let begins = format!("{field}: podman 5.4.2 {problem}; ");
            assert!(text.starts_with(&begins) && text.contains(hint), "{text}");
        }
    }
}
