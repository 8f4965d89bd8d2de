//! All attacks at once, and a concurrent task that is not affected.

use e2e_tests::fixture::{Fixture, read_until};
use sandbox::Input;

use super::hostile::{PYTHON, hostile};

// At the limit of memory even a fork may fail.
const BALLOONS: &str = "import os\nprint('begun', flush=True)\nwhile True:\n    try: pid = os.fork()\n    except OSError: continue\n    if pid == 0:\n        x = bytearray(512 << 20)\n        \
    for i in range(0, len(x), 4096): x[i] = 1\n        os._exit(0)\n    os.waitpid(pid, 0)";

#[tokio::test(flavor = "multi_thread")]
async fn neighbour_of_hostile_tasks_ends_normally() {
    let fixture = Fixture::new().await;
    let commands = [
        // The first one waits without starting a process.
        &["bash", "-c", "f() { f | f & }; f; echo begun; exec sleep 600"][..],
        &[PYTHON, "-c", BALLOONS],
        &["yes", "begun"],
    ]
    .map(|command| fixture.sandbox.create_command(hostile(&fixture, command)).expect("a good command"));
    let mut attacks = commands.each_ref().map(|command| command.execute(Input::Empty));
    for attack in &mut attacks {
        read_until(attack, |output| output.contains("begun")).await;
    }
    let tasks = async {
        for number in 0..3 {
            let ran =
                fixture.run("domains: [open.test]", &format!("curl -sS https://open.test/{number}")).await;
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            assert!(ran.stdout.contains("hello from open.test"), "{}", ran.stdout);
        }
        for command in &commands {
            assert!(command.stop().await, "an attack ended before the other task");
        }
    };
    let [bomb, balloons, endless] = attacks;
    let (bomb, balloons, endless, ()) = tokio::join!(bomb, balloons, endless, tasks);
    for result in [&bomb, &balloons, &endless] {
        let result = result.as_ref().expect("a stop is an outcome");
        assert!(result.stopped, "{:?}", result.exit_code);
    }
    let stderr = String::from_utf8_lossy(&bomb.expect("a result").stderr).into_owned();
    assert!(stderr.contains("Resource temporarily unavailable"), "{stderr}");
    fixture.close().await;
}
