//! From a run's specification to the plan of its container. Pure.

use crate::container::{ContainerError, ContainerPlan, Detachment};
use crate::error::SandboxError;
use crate::reap::{Labels, Role};
use crate::spec::RunSpec;

/// The engine's name of a run.
pub(super) fn container_name(prefix: &str, run: &str) -> String {
    format!("{prefix}-run-{run}")
}

/// What a run's container has that a command's, planned as `plan`, has not.
pub(super) fn detached(plan: ContainerPlan, spec: &RunSpec, name: String, labels: &Labels) -> ContainerPlan {
    ContainerPlan {
        name,
        labels: labels.with_role(Role::Run),
        // Whoever held the other end would have to stay.
        stdin: false,
        detachment: Detachment {
            log_limit: Some(spec.log_limit),
            annotations: spec
                .annotations
                .iter()
                .map(|(key, value)| (key.as_str().to_owned(), value.clone()))
                .collect(),
            sharing: spec
                .mounted()
                .map(|volume| (volume.container_path.clone(), volume.sharing))
                .collect(),
        },
        ..plan
    }
}

/// The same error in the words of the specification: a caller who asked for graphics processors knows nothing of devices.
pub(super) fn in_words_of(spec: &RunSpec, error: SandboxError) -> SandboxError {
    match (error, &spec.gpus) {
        (
            SandboxError::Container(ContainerError::Unsupported {
                field: "isolation.devices",
                engine,
                problem,
                ..
            }),
            Some(gpus),
        ) => ContainerError::Unsupported {
            field: "gpus",
            engine,
            problem,
            mend: gpus.mend().to_owned(),
        }
        .into(),
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::a_plan;
    use crate::reap::InstanceLock;
    use crate::spec::{AnnotationKey, ImageTag, Sharing, VolumeSpec};

    fn spec() -> RunSpec {
        RunSpec::new("r".parse().unwrap(), ImageTag::new("i"), ["true"])
            .volume(VolumeSpec::new("/srv", "/a"))
            .volume(VolumeSpec::new("/srv", "/b").private())
            .volume(VolumeSpec::new("/srv", "/c").private().live())
            .annotation(AnnotationKey::KrunCpus, "2")
            .log_limit(1 << 20)
    }

    fn planned(spec: &RunSpec) -> ContainerPlan {
        let state = tempfile::tempdir().unwrap();
        let labels = Labels::new("sandbox", &InstanceLock::acquire(state.path()).unwrap(), "r-1");
        detached(a_plan(), spec, container_name("sandbox", "r"), &labels)
    }

    #[test]
    fn a_run_has_no_stdin_a_bounded_log_and_a_role_of_its_own() {
        let plan = planned(&spec());
        assert_eq!(plan.name, "sandbox-run-r");
        assert_eq!(plan.labels.role(), Role::Run);
        assert!(!plan.stdin);
        assert_eq!(plan.detachment.log_limit, Some(1 << 20));
        assert_eq!(
            plan.detachment.annotations,
            [("krun.cpus".to_owned(), "2".to_owned())].into()
        );
    }

    #[test]
    fn only_what_is_mounted_gets_a_label() {
        let labels = |spec: &RunSpec| planned(spec).detachment.sharing;
        assert_eq!(
            labels(&spec()),
            [
                ("/a".to_owned(), Sharing::Shared),
                ("/b".to_owned(), Sharing::Private),
                ("/c".to_owned(), Sharing::Private)
            ]
            .into()
        );
        assert_eq!(
            labels(&spec().sealed()),
            [("/c".to_owned(), Sharing::Private)].into()
        );
    }

    #[test]
    fn whoever_asked_for_graphics_processors_is_told_about_them() {
        let refused = |field| {
            SandboxError::from(ContainerError::Unsupported {
                field,
                engine: "podman 4.3.1".to_owned(),
                problem: "ignores requests".to_owned(),
                mend: "use another".to_owned(),
            })
        };
        let with = spec().gpus("nvidia".parse().unwrap());
        for (spec, field, expected) in [
            (&with, "isolation.devices", ["gpus: podman 4.3.1", "nvidia-ctk"]),
            (
                &with,
                "isolation.ulimits",
                ["isolation.ulimits: podman", "use another"],
            ),
            (
                &spec(),
                "isolation.devices",
                ["isolation.devices: podman", "use another"],
            ),
        ] {
            let text = in_words_of(spec, refused(field)).to_string();
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        }
    }
}
