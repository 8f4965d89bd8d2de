//! Everything about one detached container.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::spec::{ByteSize, ImageTag, InvalidSpec, Launch, launch_settings};
use sandbox_files::host_path::Resolver;

use super::{AnnotationKey, GpuRequest, RunName, VolumeSpec, rules};

/// Everything about one detached container, which [`Runs`](crate::runs::Runs) creates, starts and stops.
///
/// Secure by default: confined as [`Isolation::agent`](crate::Isolation::agent) says (no-new-privileges included), without a network. There is no
/// way to pass further arguments to the engine: each could undo what the sandbox promises.
///
/// A sandboxed network lasts as long as the process that made it: when that ends, the run goes on without one. Limits have no timeout here:
/// a run goes on until it ends or is stopped. An engine that cannot do what is asked for, such as another runtime, is an error.
///
/// `Display` renders the equivalent `podman` command line for logs, without any value of an environment variable.
///
/// ```
/// use sandbox::runs::{RunSpec, VolumeSpec};
/// use sandbox::{ByteSize, Cpus, ImageTag, ResourceLimits};
///
/// # fn example(image: ImageTag) -> Result<RunSpec, sandbox::InvalidSpec> {
/// let spec = RunSpec::new("build-7".parse()?, image, ["make", "-j2"])
///     .volume(VolumeSpec::new("/srv/work/7", "/workspace").private())
///     .limits(ResourceLimits::default().memory(ByteSize::gib(4)).cpus(Cpus::new(2.0)?))
///     .sealed();
/// # Ok(spec)
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// Without mounts: they are volumes here.
    pub(crate) launch: Launch,
    pub(crate) name: RunName,
    pub(crate) command: Vec<String>,
    pub(crate) volumes: Vec<VolumeSpec>,
    pub(crate) gpus: Option<GpuRequest>,
    pub(crate) annotations: BTreeMap<AnnotationKey, String>,
    pub(crate) log_limit: ByteSize,
    pub(crate) sealed: bool,
}

impl RunSpec {
    pub(super) const LEAST_LOG: ByteSize = ByteSize::kib(64);
    pub(super) const LARGEST_LOG: ByteSize = ByteSize::gib(1);

    /// A run that is called `name` and executes `command` (program first) in a container of `image`.
    pub fn new(name: RunName, image: ImageTag, command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            launch: Launch::new(name.as_str().to_owned(), image),
            name,
            command: command.into_iter().map(Into::into).collect(),
            volumes: Vec::new(),
            gpus: None,
            annotations: BTreeMap::new(),
            log_limit: ByteSize::mib(8),
            sealed: false,
        }
    }

    launch_settings!(limits: "no limits of ours", isolation: "[`Isolation::agent`](crate::Isolation::agent)");

    /// Adds a volume.
    #[must_use]
    pub fn volume(mut self, volume: VolumeSpec) -> Self {
        self.volumes.push(volume);
        self
    }

    /// The folder of the host for the log of network events; it is made if it is missing, and it stays. Default:
    /// [`Runs::task_state_dir`](crate::runs::Runs::task_state_dir), which goes when the run is stopped.
    #[must_use]
    pub fn task_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.launch.network_log_dir = Some(dir.into());
        self
    }

    /// Graphics processors. Default none.
    #[must_use]
    pub fn gpus(mut self, gpus: GpuRequest) -> Self {
        self.gpus = Some(gpus);
        self
    }

    /// Adds an annotation. An engine that drops it is an error.
    #[must_use]
    pub fn annotation(mut self, key: AnnotationKey, value: impl Into<String>) -> Self {
        self.annotations.insert(key, value.into());
        self
    }

    /// Bytes of output that the engine keeps. When there is more, what is there is thrown away and keeping begins again. Default 8 MiB; from
    /// 64 KiB to 1 GiB.
    #[must_use]
    pub fn log_limit(mut self, limit: ByteSize) -> Self {
        self.log_limit = limit;
        self
    }

    /// Nothing of the host is mounted but what is [`live`](VolumeSpec::live): volumes are copied in before the start, and the host never
    /// sees what becomes of them. Default no.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.sealed = true;
        self
    }

    /// The run's name.
    #[must_use]
    pub fn name(&self) -> &RunName {
        &self.name
    }

    /// Checks what can be checked without the engine.
    fn validate(&self) -> Result<(), InvalidSpec> {
        self.launch_with(self.volumes.iter()).validate()?;
        rules::check(self)
    }

    /// The same specification, checked, of what its volumes' paths lead to now, wherever links lead later.
    pub(crate) fn checked(mut self, resolver: &Resolver) -> Result<Self, InvalidSpec> {
        self.validate()?;
        for volume in &mut self.volumes {
            *volume = volume.resolved(resolver)?;
        }
        // What the paths lead to must be good as well.
        rules::check(&self)?;
        Ok(self)
    }

    /// What it has in common with tasks and commands, with the volumes that are mounted and the devices of the graphics processors.
    pub(crate) fn mounted_launch(&self) -> Launch {
        self.launch_with(self.mounted())
    }

    fn launch_with<'a>(&self, volumes: impl Iterator<Item = &'a VolumeSpec>) -> Launch {
        let mut launch = self.launch.clone();
        launch.mounts = volumes.map(VolumeSpec::to_mount).collect();
        launch.isolation.devices.extend(self.gpus.iter().flat_map(GpuRequest::devices));
        launch
    }

    /// The volumes that are mounted.
    pub(crate) fn mounted(&self) -> impl Iterator<Item = &VolumeSpec> {
        self.volumes.iter().filter(|volume| volume.live || !self.sealed)
    }

    /// The volumes that are copied, in the order in which they are.
    pub(crate) fn copied(&self) -> impl Iterator<Item = &VolumeSpec> {
        let copied = self.volumes.iter().filter(|volume| self.sealed && !volume.live);
        rules::copy_order(copied).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;
    use crate::spec::{Device, Isolation, Network, ResourceLimits, Tmpfs};

    fn spec() -> RunSpec {
        RunSpec::new("r".parse().unwrap(), ImageTag::new("localhost/i"), ["true"])
    }

    fn targets<'a>(volumes: impl Iterator<Item = &'a VolumeSpec>) -> Vec<&'a str> {
        volumes.map(|volume| volume.container_path.as_str()).collect()
    }

    #[test]
    fn a_plain_run_is_confined_and_has_no_network() {
        let launch = spec().mounted_launch();
        assert!(launch.isolation.no_new_privileges);
        assert_eq!(launch.network, Network::Disabled);
        assert!(launch.mounts.is_empty());
    }

    #[test]
    fn graphics_processors_are_devices_beside_those_of_any_isolation() {
        let isolation = Isolation { devices: vec![Device::node("/dev/null")], ..Isolation::untrusted() };
        let spec = spec().gpus("nvidia:1".parse().unwrap()).isolation(isolation);
        let devices = [Device::node("/dev/null"), Device::Cdi("nvidia.com/gpu=1".to_owned())];
        assert_eq!(spec.mounted_launch().isolation.devices, devices);
    }

    #[test]
    fn a_sealed_run_mounts_what_is_live_and_copies_folders_before_what_lies_in_them() {
        let spec = spec()
            .volume(VolumeSpec::new("/etc/hostname", "/work/etc/name"))
            .volume(VolumeSpec::new("/etc", "/work/etc"))
            .volume(VolumeSpec::new("/usr", "/work"))
            .volume(VolumeSpec::new("/tmp", "/live").live());
        assert_eq!(targets(spec.mounted()), ["/work/etc/name", "/work/etc", "/work", "/live"]);
        assert_eq!(targets(spec.copied()), [""; 0]);
        let sealed = spec.sealed();
        assert_eq!(targets(sealed.mounted()), ["/live"]);
        assert_eq!(targets(sealed.copied()), ["/work", "/work/etc", "/work/etc/name"]);
        assert_eq!(sealed.mounted_launch().mounts.len(), 1);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_field() {
        let in_memory = Isolation { tmpfs: vec![Tmpfs::new("/scratch", 1 << 20)], ..Isolation::agent() };
        let (limits, volume) = (ResourceLimits::default(), |target: &str| VolumeSpec::new("/etc", target));
        let no_command = RunSpec::new("r".parse().unwrap(), ImageTag::new("i"), [""; 0]);
        for (spec, field) in vec![
            (spec(), None),
            (no_command, Some("command")),
            (spec().volume(VolumeSpec::new("/no/such", "/x")), Some("mounts")),
            (spec().sealed().volume(VolumeSpec::new("/no/such", "/x")), Some("mounts")),
            (spec().volume(volume("/x")).volume(volume("/x")), Some("mounts")),
            (spec().volume(volume("/run/sandbox/trust")), Some("mounts")),
            (spec().annotation(AnnotationKey::KrunCpus, "x"), Some("annotations")),
            (spec().log_limit(ByteSize::new(1)), Some("log_limit")),
            (spec().limits(limits.memory(ByteSize::new(1))), Some("resource_limits.memory")),
            (spec().limits(limits.disk(ByteSize::new(1))), Some("resource_limits.disk")),
            (spec().limits(limits.timeout(Duration::from_mins(1))), Some("resource_limits.timeout")),
            (
                spec().isolation(Isolation { hostname: "a\nb".to_owned(), ..Isolation::agent() }),
                Some("isolation.hostname"),
            ),
            (spec().task_dir("logs"), Some("task_dir")),
            (spec().task_dir("/srv/x").volume(volume("/x")), None),
            (spec().task_dir("/etc/x").volume(volume("/x")), Some("volumes")),
            (spec().task_dir("/etc").volume(volume("/x")), Some("volumes")),
            (spec().task_dir("/etc").volume(volume("/x").read_only()), None),
            (spec().task_dir("/etc").sealed().volume(volume("/x")), None),
            (spec().sealed().volume(volume("/proc/x")), Some("volumes")),
            (spec().sealed().volume(volume("/etc/hosts")), Some("volumes")),
            (spec().sealed().volume(volume("/l").live()).volume(volume("/l/x")), Some("volumes")),
            (spec().sealed().volume(volume("/lx")).volume(volume("/l").live()), None),
            (spec().sealed().isolation(in_memory.clone()).volume(volume("/scratch/x")), Some("volumes")),
            (spec().sealed().isolation(Isolation::untrusted()).volume(volume("/tmp/x")), Some("volumes")),
        ] {
            let rendered = spec.to_string();
            let error = spec.validate().err().map(|error| error.field().to_owned());
            assert_eq!(error.as_deref(), field, "{rendered}");
        }
    }

    #[test]
    fn volumes_are_of_what_their_paths_led_to_when_they_were_checked() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let (work, link) = (real.join("work"), real.join("link"));
        std::fs::create_dir(&work).unwrap();
        symlink(&work, &link).unwrap();
        let checked = spec().volume(VolumeSpec::new(&link, "/x")).checked(&Resolver::default()).unwrap();
        let refused = || {
            let (mounted, copied) =
                (checked.mounted_launch().refuse_moved_mounts(), checked.volumes[0].refuse_moved());
            assert_eq!(mounted.is_err(), copied.is_err());
            mounted.err().map(|error| error.to_string())
        };
        assert_eq!(checked.volumes[0].host_path, work);
        assert_eq!(refused(), None);
        std::fs::remove_dir(&work).unwrap();
        assert!(refused().is_some_and(|text| text.contains("cannot be found")));
        symlink("/", &work).unwrap();
        assert!(refused().is_some_and(|text| text.contains("became a symbolic link")));
    }

    #[test]
    fn a_path_that_the_engine_would_cut_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a:b");
        std::fs::create_dir(&path).unwrap();
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        for path in [path, link] {
            let spec = spec().volume(VolumeSpec::new(path, "/x"));
            assert_eq!(spec.checked(&Resolver::default()).unwrap_err().field(), "volumes");
        }
    }
}
