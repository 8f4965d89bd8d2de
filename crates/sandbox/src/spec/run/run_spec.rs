//! Everything about one detached container.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::spec::{
    ByteSize, ContainerEnv, Cpus, ImageTag, InvalidSpec, Isolation, Launch, Network, ResourceLimits, Runtime,
};
use sandbox_files::host_path::Resolver;

use super::{AnnotationKey, GpuRequest, RunName, VolumeSpec, rules};

/// Everything about one detached container, which [`Runs`](crate::runs::Runs) creates, starts and stops.
///
/// Secure by default: confined as [`Isolation::agent`] says (no-new-privileges included), without a network. There is no way to pass
/// further arguments to the engine: each could undo what the sandbox promises.
///
/// `Display` renders the equivalent `podman` command line for logs, without any value of an environment variable.
///
/// Counterpart of `RunSpec` of terok-sandbox; each setter names the field that it is the counterpart of. [`Runs`](crate::runs::Runs) says what
/// differs.
///
/// ```
/// use sandbox::ImageTag;
/// use sandbox::runs::{RunSpec, VolumeSpec};
///
/// # fn example(image: ImageTag) -> Result<RunSpec, sandbox::InvalidSpec> {
/// let spec = RunSpec::new("build-7".parse()?, image, ["make", "-j2"])
///     .volume(VolumeSpec::new("/srv/work/7", "/workspace").private())
///     .memory("4g".parse()?)
///     .cpus("2".parse()?)
///     .sealed();
/// # Ok(spec)
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RunSpec {
    pub(crate) name: RunName,
    pub(crate) image: ImageTag,
    pub(crate) command: Vec<String>,
    pub(crate) env: ContainerEnv,
    pub(crate) volumes: Vec<VolumeSpec>,
    pub(crate) task_dir: Option<PathBuf>,
    pub(crate) gpus: Option<GpuRequest>,
    pub(crate) memory: Option<ByteSize>,
    pub(crate) cpus: Option<Cpus>,
    pub(crate) pids: Option<u32>,
    pub(crate) disk: Option<ByteSize>,
    pub(crate) hostname: Option<String>,
    pub(crate) runtime: Option<Runtime>,
    pub(crate) annotations: BTreeMap<AnnotationKey, String>,
    pub(crate) isolation: Isolation,
    pub(crate) network: Network,
    pub(crate) working_dir: Option<String>,
    pub(crate) log_limit: ByteSize,
    pub(crate) sealed: bool,
}

impl RunSpec {
    pub(super) const LEAST_LOG: ByteSize = ByteSize::kib(64);
    pub(super) const LARGEST_LOG: ByteSize = ByteSize::gib(1);

    /// A run that is called `name` and executes `command` (program first) in a container of `image`.
    ///
    /// Counterpart of `RunSpec.container_name`, `RunSpec.image` and `RunSpec.command` of terok-sandbox.
    pub fn new(name: RunName, image: ImageTag, command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            name,
            image,
            command: command.into_iter().map(Into::into).collect(),
            env: ContainerEnv::default(),
            volumes: Vec::new(),
            task_dir: None,
            gpus: None,
            memory: None,
            cpus: None,
            pids: None,
            disk: None,
            hostname: None,
            runtime: None,
            annotations: BTreeMap::new(),
            isolation: Isolation::agent(),
            network: Network::default(),
            working_dir: None,
            log_limit: ByteSize::mib(8),
            sealed: false,
        }
    }

    /// The variables of the container. Default none.
    ///
    /// Counterpart of `RunSpec.env` of terok-sandbox.
    #[must_use]
    pub fn env(mut self, env: ContainerEnv) -> Self {
        self.env = env;
        self
    }

    /// Adds a volume.
    ///
    /// Counterpart of `RunSpec.volumes` of terok-sandbox.
    #[must_use]
    pub fn volume(mut self, volume: VolumeSpec) -> Self {
        self.volumes.push(volume);
        self
    }

    /// The folder of the host for the log of network events; it is made if it is missing, and it stays. Default:
    /// [`Runs::task_state_dir`](crate::runs::Runs::task_state_dir), which goes when the run is stopped.
    ///
    /// Counterpart of `RunSpec.task_dir` of terok-sandbox.
    #[must_use]
    pub fn task_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.task_dir = Some(dir.into());
        self
    }

    /// Graphics processors. Default none.
    ///
    /// Counterpart of `RunSpec.gpu_enabled` of terok-sandbox.
    #[must_use]
    pub fn gpus(mut self, gpus: GpuRequest) -> Self {
        self.gpus = Some(gpus);
        self
    }

    /// How much memory it may use. Default: no limit of ours.
    ///
    /// Counterpart of `RunSpec.memory` of terok-sandbox.
    #[must_use]
    pub fn memory(mut self, memory: ByteSize) -> Self {
        self.memory = Some(memory);
        self
    }

    /// How many processors it may use. Default: all.
    ///
    /// Counterpart of `RunSpec.cpus` of terok-sandbox.
    #[must_use]
    pub fn cpus(mut self, cpus: Cpus) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// How many processes and threads it may have. Default: the engine's limit.
    #[must_use]
    pub fn pids(mut self, pids: u32) -> Self {
        self.pids = Some(pids);
        self
    }

    /// What its root file system may come to, as [`ResourceLimits::disk`] says; what a sealed run is given counts. Default: no limit. An
    /// engine whose storage has no quotas is an error.
    #[must_use]
    pub fn disk(mut self, disk: ByteSize) -> Self {
        self.disk = Some(disk);
        self
    }

    /// The container's own name, instead of that of its isolation.
    ///
    /// Counterpart of `RunSpec.hostname` of terok-sandbox.
    #[must_use]
    pub fn hostname(mut self, name: impl Into<String>) -> Self {
        self.hostname = Some(name.into());
        self
    }

    /// What must run the container, instead of what its isolation says. An engine whose service runs another runtime is an error.
    ///
    /// Counterpart of `RunSpec.runtime` of terok-sandbox.
    #[must_use]
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Adds an annotation. An engine that drops it is an error.
    ///
    /// Counterpart of `RunSpec.annotations` of terok-sandbox.
    #[must_use]
    pub fn annotation(mut self, key: AnnotationKey, value: impl Into<String>) -> Self {
        self.annotations.insert(key, value.into());
        self
    }

    /// How it is confined. Default [`Isolation::agent`].
    ///
    /// Its no-new-privileges is the counterpart of `RunSpec.unrestricted` of terok-sandbox, and the other way about: on by default.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// What the container may reach. Default nothing. A sandboxed network lasts as long as the process that made it: when that ends,
    /// the run goes on without one.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// The working directory in the container. Default: the image's.
    #[must_use]
    pub fn working_dir(mut self, dir: impl Into<String>) -> Self {
        self.working_dir = Some(dir.into());
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
    ///
    /// Counterpart of `RunSpec.sealed` of terok-sandbox.
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

    /// Its isolation with everything that has a setter of its own.
    pub(crate) fn confinement(&self) -> Isolation {
        let mut isolation = self.isolation.clone();
        if let Some(hostname) = &self.hostname {
            isolation.hostname.clone_from(hostname);
        }
        isolation.runtime = self.runtime.or(isolation.runtime);
        isolation.devices.extend(self.gpus.iter().flat_map(GpuRequest::devices));
        isolation
    }

    /// What it has in common with tasks and commands: with the volumes that are mounted.
    pub(crate) fn launch(&self) -> Launch {
        self.launch_with(self.mounted())
    }

    fn launch_with<'a>(&self, volumes: impl Iterator<Item = &'a VolumeSpec>) -> Launch {
        Launch {
            mounts: volumes.map(VolumeSpec::to_mount).collect(),
            env: self.env.clone(),
            network: self.network.clone(),
            network_log_dir: self.task_dir.clone(),
            limits: ResourceLimits::default()
                .memory(self.memory)
                .cpus(self.cpus)
                .pids(self.pids)
                .disk(self.disk),
            isolation: self.confinement(),
            working_dir: self.working_dir.clone(),
            ..Launch::new(self.name.as_str().to_owned(), self.image.clone())
        }
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

    use super::*;
    use crate::spec::{Device, Tmpfs};

    fn spec() -> RunSpec {
        RunSpec::new("r".parse().unwrap(), ImageTag::new("localhost/i"), ["true"])
    }

    fn targets<'a>(volumes: impl Iterator<Item = &'a VolumeSpec>) -> Vec<&'a str> {
        volumes.map(|volume| volume.container_path.as_str()).collect()
    }

    #[test]
    fn a_plain_run_is_confined_and_has_no_network() {
        let launch = spec().launch();
        assert!(launch.isolation.no_new_privileges);
        assert_eq!(launch.network, Network::Disabled);
        assert!(launch.mounts.is_empty());
    }

    #[test]
    fn setters_win_over_the_isolation_whichever_comes_first() {
        let spec = spec()
            .hostname("seven")
            .runtime(Runtime::Crun)
            .gpus("nvidia:1".parse().unwrap())
            .memory("64m".parse().unwrap())
            .cpus("0.5".parse().unwrap())
            .disk("1g".parse().unwrap())
            .isolation(Isolation::untrusted());
        let launch = spec.launch();
        assert_eq!(launch.isolation.hostname, "seven");
        assert_eq!(launch.isolation.runtime, Some(Runtime::Crun));
        assert_eq!(launch.isolation.devices, [Device::Cdi("nvidia.com/gpu=1".to_owned())]);
        assert_eq!(launch.limits.memory, Some(ByteSize::mib(64)));
        assert_eq!(launch.limits.cpus, Cpus::new(0.5).ok());
        assert_eq!(launch.limits.disk, Some(ByteSize::gib(1)));
        assert_eq!(launch.isolation.user, Isolation::untrusted().user);
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
        assert_eq!(sealed.launch().mounts.len(), 1);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_field() {
        let in_memory = Isolation { tmpfs: vec![Tmpfs::new("/scratch", 1 << 20)], ..Isolation::agent() };
        let volume = |target: &str| VolumeSpec::new("/etc", target);
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
            (spec().memory(ByteSize::new(1)), Some("resource_limits.memory")),
            (spec().disk(ByteSize::new(1)), Some("resource_limits.disk")),
            (spec().hostname("a\nb"), Some("isolation.hostname")),
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
                (checked.launch().refuse_moved_mounts(), checked.volumes[0].refuse_moved());
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
