//! A cluster: a controller and three nodes, the `sandbox` command and the base image on their
//! shared file system.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e_tests::engine;
use e2e_tests::secret::unique;
use e2e_tests::setting::Setting;
use rustix::process::{Resource, getrlimit};
use tempfile::TempDir;

use super::machine::{Machine, USER};
use crate::gateway::until;

/// The machine of the controller, on which users submit jobs.
pub(super) const CONTROLLER: &str = "ctl";
/// The nodes, each with four processors.
pub(super) const NODES: [&str; 3] = ["node1", "node2", "node3"];
/// The machines and their addresses, as `slurm.conf` has them.
const MACHINES: [(&str, &str); 4] =
    [(CONTROLLER, "10.52.0.1"), (NODES[0], "10.52.0.11"), (NODES[1], "10.52.0.12"), (NODES[2], "10.52.0.13")];

/// A running cluster. Nothing is left of it when it is dropped.
pub(super) struct Cluster {
    /// The controller first.
    machines: Vec<Machine>,
    folder: TempDir,
}

impl Cluster {
    /// Starts it, and waits until all nodes are idle.
    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        configure(folder.path());
        let mut cluster = Self { machines: Vec::new(), folder };
        for (name, address) in MACHINES {
            for disk in ["local", "tmp"] {
                open_folder(&cluster.folder.path().join(name).join(disk));
            }
            let machine = Machine::boot(cluster.folder.path(), name, address, cluster.machines.first());
            cluster.machines.push(machine);
        }
        cluster.start_controller();
        for node in NODES {
            cluster.output(cluster.root(node, &["slurmd", "-N", node]));
        }
        for node in NODES {
            cluster.until_state(node, &["idle"]);
        }
        cluster
    }

    /// A command of root on the machine `host`.
    pub(super) fn root(&self, host: &str, command: &[&str]) -> Command {
        self.machine(host).root(command)
    }

    /// A command of the ordinary user on the machine `host`, in `/cluster/work`.
    pub(super) fn user(&self, host: &str, command: &[&str]) -> Command {
        self.machine(host).user(command)
    }

    /// The output of a command of the ordinary user, which has to succeed.
    pub(super) fn run(&self, host: &str, command: &[&str]) -> String {
        self.output(self.user(host, command))
    }

    fn output(&self, mut command: Command) -> String {
        let output = command.output().expect("nsenter");
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{command:?}: {}: {stdout}{stderr}\n{}", output.status, self.logs());
        stdout
    }

    /// The node loses power.
    pub(super) fn crash(&mut self, node: &str) {
        self.machines.iter_mut().find(|machine| machine.name == node).expect("a node").crash();
    }

    /// Starts a crashed node again, with the same disk.
    pub(super) fn boot(&mut self, node: &str) {
        let at = self.machines.iter().position(|machine| machine.name == node).expect("a node");
        let (name, address) = MACHINES.into_iter().find(|(name, _)| *name == node).expect("a node");
        let machine = Machine::boot(self.folder.path(), name, address, self.machines.first());
        *self.machines.get_mut(at).expect("a node") = machine;
        // The flag says that no job runs there any more.
        self.output(self.root(node, &["slurmd", "-N", node, "-b"]));
    }

    /// Waits until the controller has stored what happened so far, which it does some seconds late.
    pub(super) fn until_saved(&self) {
        let name = unique("saved-", 16);
        let id =
            self.run(CONTROLLER, &["sbatch", "--parsable", "--hold", "--job-name", &name, "--wrap", "true"]);
        let file = self.local(CONTROLLER).join("slurmctld/job_state");
        until(|| {
            let bytes = fs::read(&file).unwrap_or_default();
            let is_there = memchr::memmem::find(&bytes, name.as_bytes()).is_some();
            if is_there { Ok(()) } else { Err(format!("{} has no new jobs", file.display())) }
        });
        self.run(CONTROLLER, &["scancel", id.trim()]);
    }

    /// Kills the controller's process, as the machine's shortage of memory does.
    pub(super) fn kill_controller(&self) {
        const KILL: &str =
            "read -r pid < /run/slurmctld.pid; kill -KILL $pid; while [ -e /proc/$pid ]; do sleep 0.02; done";
        self.output(self.root(CONTROLLER, &["sh", "-ec", KILL]));
    }

    /// Starts the controller's process, and waits until it responds.
    pub(super) fn start_controller(&self) {
        const START: &str = "for file in /local/slurmctld.log /local/jobcomp.log /run/slurmctld.pid; do \
             touch $file; chown slurm:slurm $file; done; install -d -o slurm -g slurm /local/slurmctld; slurmctld";
        self.output(self.root(CONTROLLER, &["sh", "-ec", START]));
        until(|| {
            let output = self.user(CONTROLLER, &["scontrol", "ping"]).output().expect("nsenter");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if text.contains("is UP") { Ok(()) } else { Err(text + &self.logs()) }
        });
    }

    /// Waits until the state of the node is one of `states`.
    pub(super) fn until_state(&self, node: &str, states: &[&str]) {
        until(|| {
            let command = ["sinfo", "--noheader", "--nodes", node, "--format", "%T"];
            let output = self.user(CONTROLLER, &command).output().expect("nsenter");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            // A star marks a node that does not respond.
            let is_there = states.contains(&text.trim().trim_end_matches('*'));
            if is_there {
                Ok(())
            } else {
                Err(format!("{node} is {text:?}, not {states:?}\n{}", self.logs()))
            }
        });
    }

    /// The processes of the ordinary user on a machine, one a line.
    pub(super) fn processes(&self, host: &str) -> String {
        let script = format!("ps -u {USER} -o pid=,args= || :");
        self.output(self.root(host, &["sh", "-c", &script]))
    }

    /// The folder with the disks of all machines.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folders that the machines have in memory.
    pub(super) fn memory(&self) -> Vec<PathBuf> {
        self.machines.iter().flat_map(Machine::memory).collect()
    }

    /// The path of the shared file system `/cluster` outside of the machines.
    pub(super) fn shared(&self) -> PathBuf {
        self.folder.path().join("shared")
    }

    /// The path of a machine's disk `/local` outside of it.
    pub(super) fn local(&self, host: &str) -> PathBuf {
        self.folder.path().join(host).join("local")
    }

    /// Copies the programs under test to `/cluster`, as an administrator installs them, and the
    /// base image to `/cluster/image.tar`.
    pub(super) async fn deploy(&self) {
        let setting = Setting::of_this_run();
        let shared = self.shared();
        let (programs, inside) = (shared.join("bin"), shared.join("libexec/sandbox"));
        for folder in [&programs, &inside] {
            fs::create_dir_all(folder).expect("a folder");
        }
        fs::copy(&setting.sandbox_bin, programs.join("sandbox")).expect("the sandbox command");
        for name in ["sandbox-proxy", "sandbox-inside"] {
            fs::copy(setting.proxy_dir.join(name), inside.join(name)).expect("a program");
        }
        let target = format!("/v4.0.0/libpod/images/{}/get?format=docker-archive", setting.image);
        let (status, image) = engine::raw("GET", &target).await;
        assert_eq!(status, 200, "{} is exported", setting.image);
        fs::write(shared.join("image.tar"), image).expect("a file");
    }

    fn machine(&self, host: &str) -> &Machine {
        self.machines.iter().find(|machine| machine.name == host).expect("a machine")
    }

    /// The ends of the logs of Slurm.
    fn logs(&self) -> String {
        let log = |(host, name): (&str, &str)| {
            let text = fs::read_to_string(self.local(host).join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let end = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default();
            format!("{host}:\n{}\n", end.join("\n"))
        };
        let nodes = NODES.map(|node| (node, "slurmd.log"));
        [(CONTROLLER, "slurmctld.log")].into_iter().chain(nodes).map(log).collect()
    }
}

/// Writes what all machines have in `/etc`, and makes the folders of users.
fn configure(folder: &Path) {
    let etc = folder.join("etc");
    let copied =
        Command::new("cp").arg("-a").arg(Setting::of_this_run().slurm.join("etc")).arg(&etc).status();
    assert!(copied.is_ok_and(|status| status.success()), "/etc is copied");
    let write = |name: &str, text: &str| fs::write(etc.join(name), text).expect("a file");
    let add = |name: &str, line: String| {
        write(name, &(fs::read_to_string(etc.join(name)).expect("a file") + &line));
    };
    add("passwd", format!("ordinary:x:{USER}:{USER}::/cluster/home:/bin/sh\n"));
    add("group", format!("ordinary:x:{USER}:\n"));
    write("subuid", &format!("{USER}:700000:65536\n"));
    write("subgid", &format!("{USER}:700000:65536\n"));
    let hosts = MACHINES.map(|(name, address)| format!("{address} {name}\n")).concat();
    write("hosts", &format!("127.0.0.1 localhost\n{hosts}"));
    // Nothing answers there, but a run demands a name server.
    write("resolv.conf", "nameserver 203.0.113.10\n");
    write("slurm/slurm.conf", include_str!("slurm.conf"));
    write("containers/containers.conf", &containers_conf());
    let key = etc.join("munge/munge.key");
    fs::write(&key, rand::random::<[u8; 32]>().map(|byte| byte.to_string()).concat()).expect("a file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).expect("our own file");
    for name in ["home", "work"] {
        let path = folder.join("shared").join(name);
        fs::create_dir_all(&path).expect("a folder");
        chown(path, Some(USER), Some(USER)).expect("root");
    }
}

/// A folder in which every user can write.
fn open_folder(path: &Path) {
    DirBuilder::new().recursive(true).mode(0o755).create(path).expect("a folder");
    fs::set_permissions(path, fs::Permissions::from_mode(0o1777)).expect("our own folder");
}

/// Podman asks for higher limits than a machine without `CAP_SYS_RESOURCE` grants.
fn containers_conf() -> String {
    let most = |resource, most| getrlimit(resource).maximum.map_or(most, |hard: u64| hard.min(most));
    let pid_max = fs::read_to_string("/proc/sys/kernel/pid_max").expect("a number");
    let (files, processes) =
        (most(Resource::Nofile, 1 << 20), most(Resource::Nproc, pid_max.trim().parse().expect("a number")));
    format!(
        "[containers]\ndefault_ulimits = [\"nofile={files}:{files}\", \"nproc={processes}:{processes}\"]\n\
         [engine]\nevents_logger = \"file\"\n[network]\nnetwork_backend = \"netavark\"\n"
    )
}
