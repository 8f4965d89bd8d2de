//! An agent that prints faster than its reader reads waits, and the host's memory is bounded.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use crate::command_line::project::Project;
use crate::command_line::stand_in::{RESULT, StandIn};

const EVENTS: usize = 300_000;
/// Bytes per read.
const PIECE: u64 = 1 << 20;

/// Runs an agent that prints some 300 MB of events with a memory limit in KiB, and reads them
/// slowly; returns the number of events and whether it succeeded.
fn run(kibibytes: u64) -> (usize, bool) {
    let project = Project::new();
    let stand_in = StandIn::new(&format!(
        "x=$(printf 'x%.0s' {{1..1000}})
yes \"{{\\\"type\\\":\\\"x\\\",\\\"text\\\":\\\"$x\\\"}}\" | head -n {EVENTS}
echo '{RESULT}'"
    ));
    let arguments = stand_in.arguments(&["--output", "stream-json"]);
    let mut child = project
        .within_memory(kibibytes, &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the sandbox command");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut lines = 0;
    loop {
        let mut piece = Vec::new();
        let length = stdout.by_ref().take(PIECE).read_to_end(&mut piece).expect("output");
        lines += memchr::memchr_iter(b'\n', &piece).count();
        if length == 0 {
            break;
        }
        // A reader that is slower than the agent.
        std::thread::sleep(Duration::from_millis(20));
    }
    (lines, child.wait().expect("our own child").success())
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_waits_for_the_reader_of_its_events() {
    assert_eq!(run(400 * 1024), (EVENTS + 1, true));
    assert!(!run(64 * 1024).1, "the control: the memory was bounded");
}
