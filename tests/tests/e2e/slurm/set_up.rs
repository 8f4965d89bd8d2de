//! The cluster itself: what the tests of jobs rely on.

use std::fs;

use super::cluster::{CONTROLLER, Cluster, NODES};
use crate::gateway::until;

/// The state of a job, such as `RUNNING`, and how often it was started again.
fn job(cluster: &Cluster, id: &str) -> (String, String) {
    let shown = cluster.run(CONTROLLER, &["scontrol", "show", "job", "--oneliner", id]);
    let field = |name: &str| {
        let mut values =
            shown.split_whitespace().filter_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        values.next_back().expect("a field").to_owned()
    };
    (field("JobState"), field("Restarts"))
}

#[tokio::test(flavor = "multi_thread")]
async fn job_of_a_crashed_node_runs_again_and_outlives_the_controller() {
    let mut cluster = Cluster::start();
    let names = cluster.run(CONTROLLER, &["srun", "--nodes=3", "--label", "hostname"]);
    for node in NODES {
        assert!(names.contains(node), "{names}");
    }
    let script =
        "echo $(hostname) $SLURM_RESTART_COUNT >> started; while ! [ -e enough ]; do sleep 0.1; done";
    let submit = ["sbatch", "--parsable", "--requeue", "--open-mode=append", "--wrap", script];
    let id = cluster.run(CONTROLLER, &[&submit[..], &["--nodelist=node2"]].concat()).trim().to_owned();
    let work = cluster.shared().join("work");
    let started = || fs::read_to_string(work.join("started")).unwrap_or_default();
    until(|| if started() == "node2\n" { Ok(()) } else { Err(started()) });
    cluster.crash("node2");
    cluster.until_state("node2", &["down"]);
    cluster.boot("node2");
    until(|| if started() == "node2\nnode2 1\n" { Ok(()) } else { Err(started()) });
    cluster.until_saved();
    cluster.kill_controller();
    fs::write(work.join("enough"), "").expect("a file");
    cluster.start_controller();
    until(|| match job(&cluster, &id) {
        (state, restarts) if state == "COMPLETED" && restarts == "1" => Ok(()),
        state => Err(format!("{state:?}")),
    });
    let folder = cluster.shared().parent().expect("a folder").to_owned();
    drop(cluster);
    assert!(!folder.exists());
}
