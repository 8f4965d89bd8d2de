//! One machine of a cluster: namespaces of its own, and a disk that outlasts a loss of power.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e_tests::setting::Setting;
use rustix::process::{Pid, Signal, kill_process};

/// The ordinary user of all machines.
pub(super) const USER: u32 = 64_321;
const PROGRAMS: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A running machine. All its processes end with this value.
pub(super) struct Machine {
    pub(super) name: &'static str,
    /// The parent of its first process.
    process: Child,
    first: Pid,
}

impl Machine {
    /// Boots the machine `name` of the cluster in `base`. The first machine of a cluster has no
    /// `controller`.
    pub(super) fn boot(
        base: &Path,
        name: &'static str,
        address: &'static str,
        controller: Option<&Self>,
    ) -> Self {
        let setting = Setting::of_this_run();
        let log = base.join(name).join("boot.log");
        let mut process = Command::new("env")
            // A killed test ends its machines.
            .args(["-i", PROGRAMS, "unshare", "--fork", "--kill-child"])
            .args(["--mount", "--net", "--uts", "--ipc", "--pid", "env"])
            .args([format!("NAME={name}"), format!("ADDRESS={address}"), format!("USER_ID={USER}")])
            .arg(format!("CONTROLLER={}", controller.map(Self::id).unwrap_or_default()))
            .args([format!("ROOT={}", setting.slurm.display()), format!("BASE={}", base.display())])
            // `cargo xtask e2e` ends what is left of a killed test by this variable.
            .arg(format!("SANDBOX_E2E_FOLDER={}", setting.folder.display()))
            .args(["sh", "-c", include_str!("boot.sh")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a file"))
            .spawn()
            .expect("env");
        let mut first = String::new();
        let stdout = process.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut first).expect("output");
        let first = first.trim_end().parse().ok().and_then(Pid::from_raw);
        let log = || fs::read_to_string(&log).expect("a file");
        let first = first.unwrap_or_else(|| panic!("{name} does not boot, which needs root: {}", log()));
        Self { name, process, first }
    }

    /// A command of root on the machine.
    pub(super) fn root(&self, command: &[&str]) -> Command {
        self.enter(&["HOME=/root"], command)
    }

    /// A command of the ordinary user on the machine.
    pub(super) fn user(&self, command: &[&str]) -> Command {
        let user = USER.to_string();
        let as_user = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
        let there = ["env", "-C", "/cluster/work"];
        self.enter(&["HOME=/cluster/home"], &[&as_user[..], &there, command].concat())
    }

    fn enter(&self, environment: &[&str], command: &[&str]) -> Command {
        let mut entered = Command::new("nsenter");
        entered.args(["--target", &self.id(), "--mount", "--net", "--uts", "--ipc", "--pid", "--"]);
        entered.args(["env", "-i", PROGRAMS, "LANG=C.UTF-8"]).args(environment).args(command);
        entered.stdin(Stdio::null());
        entered
    }

    /// Its folders in memory, as the outside sees them.
    pub(super) fn memory(&self) -> [PathBuf; 2] {
        ["run", "dev/shm"].map(|path| Path::new("/proc").join(self.id()).join("root").join(path))
    }

    fn id(&self) -> String {
        self.first.as_raw_nonzero().to_string()
    }

    /// The machine loses power: nothing of it runs any more.
    pub(super) fn crash(&mut self) {
        if self.process.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        // With the first process, all others end.
        let _ = kill_process(self.first, Signal::KILL);
        self.process.wait().expect("our own child");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.crash();
    }
}
