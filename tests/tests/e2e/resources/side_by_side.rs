//! All of it at once, and a task beside it that knows nothing of it.

use std::time::{Duration, Instant};

use e2e_tests::bed::Bed;

use super::hostile::{PYTHON, hostile, limits};

/// How long the attacks last. The tasks beside them must have ended before.
const ATTACK: Duration = Duration::from_secs(40);

const BALLOONS: &str = "import os\nwhile True:\n    pid = os.fork()\n    if pid == 0:\n        x = bytearray(512 << 20)\n        \
    for i in range(0, len(x), 4096): x[i] = 1\n        os._exit(0)\n    os.waitpid(pid, 0)";

#[tokio::test(flavor = "multi_thread")]
async fn another_task_ends_normally_beside_a_fork_bomb_a_balloon_and_endless_output() {
    let bed = Bed::new().await;
    let attack = |command: &[&str]| {
        let spec = hostile(&bed, command).limits(limits().timeout(ATTACK));
        bed.run_spec(spec)
    };
    let attacks = async {
        tokio::join!(
            // It takes no process for the first one to stay.
            attack(&["bash", "-c", "f() { f | f & }; f; exec sleep 600"]),
            attack(&[PYTHON, "-c", BALLOONS]),
            attack(&["yes"])
        )
    };
    let begun = Instant::now();
    let tasks = async {
        let mut ended = Vec::new();
        for number in 0..3 {
            let ran = bed.run("domains: [open.test]", &format!("curl -sS https://open.test/{number}")).await;
            ended.push((ran, begun.elapsed()));
        }
        ended
    };
    let ((bomb, balloon, endless), tasks) = tokio::join!(attacks, tasks);
    for (ran, ended) in &tasks {
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("hello from open.test"), "{}", ran.stdout);
        assert!(*ended < ATTACK, "it ended beside them: {ended:?}");
    }
    for ran in [&bomb, &balloon, &endless] {
        assert!(ran.result.timed_out, "{:?}", ran.result.exit_code);
    }
    assert!(bomb.stderr.contains("Resource temporarily unavailable"), "{}", bomb.stderr);
    bed.close().await;
}
