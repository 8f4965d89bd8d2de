//! Bundles as jobs: their results, lost nodes and a killed controller, and what is left.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use e2e_tests::assert_held;
use e2e_tests::secret::unique;
use e2e_tests::setting::Setting;
use sandbox_bundle::RunResult;
use serde_json::{Value, json};

use super::cluster::{CONTROLLER, Cluster, NODES};
use crate::credentials::Needles;
use crate::gateway::until;

const SANDBOX: &str = "/cluster/bin/sandbox";
const SETTINGS: &str =
    "masked_secrets: {TOKEN: {value: !env TOKEN, scopes: [open.test], headers: [authorization]}}";

const COUNT: u32 = 60;
/// The number of a bundle that runs until it is cancelled.
const ENDLESS: u32 = 2;
/// The number of a bundle that runs long enough to be queued again meanwhile.
const REQUEUED: u32 = 3;

/// The number of a bundle that is cancelled before it starts.
const UNSTARTED: u32 = 60;

/// The numbers of bundles that start only when a node is lost, however long what comes before takes.
const HELD: &str = "31-60";
/// Those without the one that is cancelled before.
const RELEASED: &str = "31-59";

/// Writes bundles that take a secret, print their number and end with that number modulo 3.
fn pack(cluster: &Cluster) {
    let image = &Setting::of_this_run().image;
    let script = format!(
        r#"
mkdir -p project/.sandbox; cd project
printf '%s' '{SETTINGS}' > .sandbox/sandbox.yaml
for number in $(seq {COUNT}); do
    case $number in {ENDLESS}) last=100000;; {REQUEUED}) last=30;; *) last=1;; esac
    {SANDBOX} --trust bundle create --image {image} -o ../$number.bundle -- \
        bash -c "echo begun $number; echo \$TOKEN > token; sleep $last; exit $((number % 3))"
done
rm .sandbox/sandbox.yaml
{SANDBOX} --trust bundle create --image {image} -o ../plain.bundle -- true
"#
    );
    cluster.run(CONTROLLER, &["sh", "-ec", &script]);
}

/// Bundles that were submitted together.
struct Jobs {
    name: &'static str,
    /// Slurm's number of them.
    array: String,
    folder: PathBuf,
}

impl Jobs {
    fn submit(
        cluster: &Cluster,
        name: &'static str,
        flags: &[&str],
        bundles: &[&str],
        more: &[&str],
    ) -> Self {
        let command = [SANDBOX, "submit", "--slurm", "-o", name, "--local", "/local"];
        let image = ["--image-archive", "/cluster/image.tar"];
        let array = cluster.run(CONTROLLER, &[&command[..], &image, flags, bundles, &["--"], more].concat());
        Self { name, array: array.trim().to_owned(), folder: cluster.shared().join("work").join(name) }
    }

    /// Starts `sandbox collect` with `secrets`.
    fn collect(&self, cluster: &Cluster, secrets: &Value) -> Child {
        let mut collect = cluster.user(CONTROLLER, &[SANDBOX, "collect", "--secrets-stdin", self.name]);
        collect.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = collect.spawn().expect("nsenter");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(secrets.to_string().as_bytes()).expect("it reads");
        child
    }

    /// The rows of `sandbox jobs`.
    fn rows(&self, cluster: &Cluster) -> Vec<Value> {
        let printed = cluster.run(CONTROLLER, &[SANDBOX, "jobs", "--output", "json", self.name]);
        let mut report: Value = serde_json::from_str(&printed).expect("JSON");
        match report.get_mut("jobs").expect("a field").take() {
            Value::Array(rows) => rows,
            other => panic!("no list: {other}"),
        }
    }

    fn state(&self, cluster: &Cluster, number: u32) -> Value {
        let row = self.rows(cluster).into_iter().find(|row| row["number"] == number);
        row.expect("a row").get_mut("state").expect("a field").take()
    }

    fn log(&self, number: u32) -> String {
        fs::read_to_string(self.folder.join(format!("logs/{number}.log"))).unwrap_or_default()
    }

    fn until_begun(&self, number: u32) {
        let line = format!("begun {number}\n");
        until(|| match self.log(number) {
            log if log.contains(&line) => Ok(()),
            log => Err(format!("{number} has not begun: {log}")),
        });
    }

    /// Waits until a job runs on `node`.
    fn until_running(&self, cluster: &Cluster, node: &str) {
        until(|| match self.rows(cluster) {
            rows if rows.iter().any(|row| row["node"] == node && row["state"] == "RUNNING") => Ok(()),
            rows => Err(format!("nothing runs on {node}: {rows:?}")),
        });
    }

    /// How often jobs were started again.
    fn restarts(&self, cluster: &Cluster) -> u32 {
        let shown = cluster.run(CONTROLLER, &["scontrol", "--oneliner", "show", "job", &self.array]);
        let counts = shown.split_whitespace().filter_map(|field| field.strip_prefix("Restarts="));
        counts.map(|count| count.parse::<u32>().expect("a number")).sum()
    }

    /// The numbers of the bundles with a result, and its exit code.
    fn results(&self) -> BTreeMap<u32, u8> {
        let numbers = names(&self.folder).into_iter().filter_map(|name| name.parse().ok());
        let code = |number: u32| {
            let folder = self.folder.join(number.to_string());
            let record =
                RunResult::read(&fs::read(folder.join("result.json")).expect("a file")).expect("a record");
            assert_eq!(
                fs::read_to_string(folder.join("stdout")).expect("a file"),
                format!("begun {number}\n")
            );
            (number, record.outcome.exit_code)
        };
        numbers.map(code).collect()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect()
}

/// Runs a further job on each node, and waits until no process of a user is left, and nothing but
/// images on the disk.
fn assert_nothing_left(cluster: &Cluster) {
    for (node, name) in NODES.into_iter().zip(["last1", "last2", "last3"]) {
        let there = format!("--nodelist={node}");
        let last = Jobs::submit(cluster, name, &[], &["plain.bundle"], &[&there]);
        let collected = last.collect(cluster, &json!({})).wait_with_output().expect("our own child");
        assert!(collected.status.success(), "{collected:?}");
        until(|| match cluster.processes(node) {
            processes if processes.is_empty() => Ok(()),
            processes => Err(format!("{node} has {processes}")),
        });
        assert_eq!(names(&cluster.local(node).join("sandbox-64321/jobs")), [""; 0], "{node}");
        let left = cluster.run(node, &["find", "/tmp", "/dev/shm/sandbox-64321", "-mindepth", "1"]);
        assert_eq!(left, "", "{node}");
    }
}

/// Searches all files of the cluster, and the environment and command line of all processes.
fn search(cluster: &Cluster, needles: &mut Needles) {
    needles.look_into_files("files", [cluster.folder()]);
    for folder in cluster.memory() {
        needles.look_into_files("files in memory", [folder.as_path()]);
    }
    for pid in names(Path::new("/proc")).iter().filter_map(|name| name.parse::<u32>().ok()) {
        for file in ["cmdline", "environ"] {
            let path = format!("/proc/{pid}/{file}");
            needles.look("processes", &path, &fs::read(&path).unwrap_or_default());
        }
    }
}

/// Asserts that a proxy has the secret, and that it is found there.
fn assert_given(needles: &mut Needles) {
    let pids = names(Path::new("/proc")).into_iter().filter_map(|name| name.parse::<u32>().ok());
    let comm = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    for proxy in pids.filter(|pid| comm(pid) == "sandbox-proxy\n") {
        needles.look_into_memory("memory of a proxy", proxy);
    }
    assert!(!needles.found().is_empty(), "the control: a search of memory finds what is there");
    needles.forget();
}

/// Asserts that a value in the environment of `sbatch` is found where Slurm stores it.
fn assert_found_in_spool(cluster: &Cluster) {
    let value = unique("control-", 30);
    let variable = format!("CONTROL={value}");
    let submit = ["env", &variable, "sbatch", "--parsable", "--hold", "--wrap", "true"];
    let id = cluster.run(CONTROLLER, &submit);
    let mut needles = Needles::new(&[value]);
    search(cluster, &mut needles);
    cluster.run(CONTROLLER, &["scancel", id.trim()]);
    let found = needles.found().get("files").into_iter().flatten();
    assert!(found.clone().any(|path| path.contains("/slurmctld/")), "{:?}", needles.found());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_result_is_lost_or_doubled_and_nothing_is_left() {
    let mut cluster = Cluster::start();
    cluster.deploy().await;
    pack(&cluster);
    let token = unique("ghp_", 36);
    let mut needles = Needles::new(std::slice::from_ref(&token));
    let bundles: Vec<String> = (1..=COUNT).map(|number| format!("{number}.bundle")).collect();
    let bundles: Vec<&str> = bundles.iter().map(String::as_str).collect();
    let jobs = Jobs::submit(&cluster, "jobs", &["-j", "12"], &bundles, &[]);
    let held = format!("{}_[{HELD}]", jobs.array);
    cluster.run(CONTROLLER, &["scontrol", "hold", &held]);
    let collect = jobs.collect(&cluster, &json!({"TOKEN": token}));

    jobs.until_begun(ENDLESS);
    jobs.until_begun(REQUEUED);
    search(&cluster, &mut needles);
    assert_held!(needles.found().is_empty(), "{:#?}", needles.found());
    assert_given(&mut needles);

    let rows = jobs.rows(&cluster);
    let of_both = |row: &&Value| row["number"] == ENDLESS || row["number"] == REQUEUED;
    let busy: Vec<&Value> = rows.iter().filter(of_both).map(|row| &row["node"]).collect();
    let node = NODES.into_iter().find(|node| busy.iter().all(|busy| *busy != node)).expect("a node");
    cluster.run(CONTROLLER, &[SANDBOX, "cancel", jobs.name, &UNSTARTED.to_string()]);
    assert_eq!(
        (jobs.state(&cluster, UNSTARTED), jobs.state(&cluster, UNSTARTED - 1)),
        (json!("CANCELLED"), json!("PENDING"))
    );
    cluster.run(CONTROLLER, &["scontrol", "requeue", &format!("{}_{REQUEUED}", jobs.array)]);
    cluster.run(CONTROLLER, &["scontrol", "release", &format!("{}_[{RELEASED}]", jobs.array)]);
    jobs.until_running(&cluster, node);
    cluster.crash(node);
    cluster.until_state(node, &["down"]);
    cluster.boot(node);
    assert_found_in_spool(&cluster);
    cluster.until_saved();
    cluster.kill_controller();
    cluster.start_controller();
    cluster.run(CONTROLLER, &[SANDBOX, "cancel", jobs.name, &ENDLESS.to_string()]);
    assert_eq!(jobs.state(&cluster, ENDLESS), "CANCELLED");

    let collected = collect.wait_with_output().expect("our own child");
    let errors = String::from_utf8_lossy(&collected.stderr);
    assert_eq!(collected.status.code(), Some(1), "{errors}");
    assert!(errors.contains("58 of 60 bundles have a result"), "{errors}");
    let expected = (1_u32..).zip([1, 2, 0].into_iter().cycle()).take(bundles.len());
    let expected = expected.filter(|(number, _)| ![ENDLESS, UNSTARTED].contains(number));
    assert_eq!(jobs.results(), expected.collect());
    assert!(jobs.restarts(&cluster) >= 2, "one was queued again, and others lost their node");
    assert_eq!(names(&jobs.folder.join("attempts")), [""; 0]);
    assert_nothing_left(&cluster);
    search(&cluster, &mut needles);
    assert_held!(needles.found().is_empty(), "{:#?}", needles.found());
}
