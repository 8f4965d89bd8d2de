//! The memory that a start takes in a session with large earlier replies. It is alone in its
//! program: the peak is measured per process.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};

use sandbox_session::{ReplyEnd, SessionStore};

const MIB: u64 = 1024 * 1024;

/// The peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("our own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn start_takes_no_memory_for_earlier_replies() {
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::open(folder.path(), "c").unwrap();
    let path = folder.path().join("context.json");
    let text = "x".repeat(900 * 1024);
    let event =
        format!(r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#);
    let mut file = BufWriter::new(File::create(&path).unwrap());
    write!(file, r#"{{"execution_context_id":"c","replies":["#).unwrap();
    for reply in 0..2 {
        let separator = if reply == 0 { "" } else { "," };
        write!(file, r#"{separator}{{"session_id":"s{reply}","response_text":"{text}","events":[{event}"#)
            .unwrap();
        for _ in 0..8 {
            write!(file, ",{event}").unwrap();
        }
        write!(file, "]}}").unwrap();
    }
    write!(file, "]}}").unwrap();
    drop(file);
    let size = fs::metadata(&path).unwrap().len();
    let before = peak();

    assert_eq!(store.session_id_for_resume().unwrap().as_deref(), Some("s1"));
    let writer = store.begin("q").unwrap();
    writer.finish(ReplyEnd { is_error: false, measured: std::time::Duration::ZERO }).unwrap();
    let taken = peak() - before;
    assert!(taken < 4 * MIB, "{taken} bytes for a session of {size}");

    let session = store.load().unwrap().unwrap();
    assert_eq!(session.replies.iter().map(|reply| reply.events.len()).collect::<Vec<_>>(), [9, 9, 0]);
    assert!(peak() - before > size, "the control: to read all of it takes more");
}
