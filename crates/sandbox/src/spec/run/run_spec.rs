//! The specification of one detached container.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::spec::{ByteSize, ImageTag, InvalidSpec, Launch, launch_settings};
use sandbox_files::host_path::Resolver;

use super::{AnnotationKey, GpuRequest, RunName, VolumeSpec, rules};

/// The specification of one detached container, which [`Runs`](crate::runs::Runs) creates, starts
/// and stops.
///
/// Secure by default: confined like [`Isolation::agent`](crate::Isolation::agent)
/// (no-new-privileges included), without a network. Further arguments to the engine are not
/// possible: each could break a guarantee of the sandbox.
///
/// A sandboxed network lasts as long as the process that created it: when that ends, the run
/// continues without a network. Limits have no timeout here: a run continues until it ends or is
/// stopped. A setting that the engine does not support, such as another runtime, is an error.
///
/// `Display` renders the closest `podman` command line for logs, without values of environment
/// variables.
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
    /// Without mounts, which are volumes here.
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

    /// A run named `name` that executes `command` (program first) in a container of `image`.
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

    launch_settings!(limits: "no limits", isolation: "[`Isolation::agent`](crate::Isolation::agent)");

    /// Adds a volume.
    #[must_use]
    pub fn volume(mut self, volume: VolumeSpec) -> Self {
        self.volumes.push(volume);
        self
    }

    /// The folder on the host for the network log. It is created if missing, and is kept. Default:
    /// [`Runs::task_state_dir`](crate::runs::Runs::task_state_dir), which is removed when the run
    /// is stopped.
    #[must_use]
    pub fn task_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.launch.network_log_dir = Some(dir.into());
        self
    }

    /// GPUs. Default: none.
    #[must_use]
    pub fn gpus(mut self, gpus: GpuRequest) -> Self {
        self.gpus = Some(gpus);
        self
    }

    /// Adds an annotation. It is an error if the engine drops it.
    #[must_use]
    pub fn annotation(mut self, key: AnnotationKey, value: impl Into<String>) -> Self {
        self.annotations.insert(key, value.into());
        self
    }

    /// Bytes of output that the engine keeps. When the limit is reached, the stored output is
    /// discarded and storing starts over. Default: 8 MiB; from 64 KiB to 1 GiB.
    #[must_use]
    pub fn log_limit(mut self, limit: ByteSize) -> Self {
        self.log_limit = limit;
        self
    }

    /// Mounts nothing of the host except [`live`](VolumeSpec::live) volumes: others are copied in
    /// before the start, and later changes never reach the host. Default: no.
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

    /// Checks everything that can be checked without the engine.
    fn validate(&self) -> Result<(), InvalidSpec> {
        self.launch_with(self.volumes.iter()).validate()?;
        rules::check(self)
    }

    /// The checked specification, with its volumes' paths resolved once: later changes of links
    /// have no effect.
    pub(crate) fn checked(mut self, resolver: &Resolver) -> Result<Self, InvalidSpec> {
        self.validate()?;
        for volume in &mut self.volumes {
            *volume = volume.resolved(resolver)?;
        }
        // The resolved paths must be valid as well.
        rules::check(&self)?;
        Ok(self)
    }

    /// The settings that it shares with tasks and commands, with the mounted volumes and the
    /// devices of the GPUs.
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

    /// The volumes that are copied, in the order of copying.
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
    fn default_run_is_confined_without_network() {
        let launch = spec().mounted_launch();
        assert!(launch.isolation.no_new_privileges);
        assert_eq!(launch.network, Network::Disabled);
        assert!(launch.mounts.is_empty());
    }

    #[test]
    fn gpus_are_added_to_the_devices_of_the_isolation() {
        let isolation = Isolation { devices: vec![Device::node("/dev/null")], ..Isolation::untrusted() };
        let spec = spec().gpus("nvidia:1".parse().unwrap()).isolation(isolation);
        let devices = [Device::node("/dev/null"), Device::Cdi("nvidia.com/gpu=1".to_owned())];
        assert_eq!(spec.mounted_launch().isolation.devices, devices);
    }

    #[test]
    fn sealed_run_mounts_live_volumes_and_copies_folders_before_their_contents() {
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
    fn invalid_specification_is_refused_with_its_field() {
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
    fn volume_whose_path_changes_after_the_check_is_refused() {
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
    fn path_that_the_engine_would_truncate_is_refused() {
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
