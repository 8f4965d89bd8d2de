//! The session's files after each step, and after a failed step.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use claude_output::parse_event;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::metadata::{SessionMetadata, deepest_event};
use super::super::outline::ReplyOutline;
use super::super::store::SessionStore;
use super::*;

struct Fixture {
    directory: tempfile::TempDir,
    store: SessionStore,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SessionStore::open(directory.path(), "c").unwrap();
        Self { directory, store }
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.directory.path().join(name)).ok()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.directory.path().join(name), bytes).unwrap();
    }

    /// The content of `context.json` alone: the view of a program that does not know the journal.
    fn context(&self) -> SessionMetadata {
        serde_json::from_slice(&self.read(CONTEXT).unwrap()).unwrap()
    }

    fn replies(&self) -> Vec<SessionReply> {
        self.store.load().unwrap().map(|session| session.replies).unwrap_or_default()
    }

    /// Writes a reply that ends well.
    fn reply(&self, events: &[StreamEvent]) -> SessionReply {
        let mut writer = self.store.begin("a question").unwrap();
        for event in events {
            writer.add(event.clone()).unwrap();
        }
        writer.finish(GOOD).unwrap()
    }
}

const GOOD: ReplyEnd = ReplyEnd { is_error: false, measured: Duration::from_millis(7) };

fn event(json: &Value) -> StreamEvent {
    parse_event(&json.to_string()).unwrap()
}

fn init() -> StreamEvent {
    event(&json!({"type": "system", "subtype": "init", "session_id": "s1"}))
}

fn message(text: &str) -> StreamEvent {
    let content = json!([{"type": "text", "text": text}]);
    event(&json!({"type": "assistant", "session_id": "s1", "message": {"id": text, "content": content}}))
}

fn result() -> StreamEvent {
    event(&json!({
        "type": "result", "is_error": false, "result": "done", "session_id": "s1", "duration_ms": 50, "num_turns": 2,
        "total_cost_usd": 0.1, "usage": {"input_tokens": 3},
    }))
}

#[test]
fn reply_is_seen_as_it_grows_and_complete_at_its_end() {
    let fixture = Fixture::new();
    let mut writer = fixture.store.begin("a question").unwrap();
    assert_eq!(fixture.replies()[0].request_text, "a question");
    assert_eq!(fixture.context().replies.len(), 1);

    writer.add(init()).unwrap();
    writer.add(message("hello")).unwrap();
    assert_eq!(fixture.replies()[0].events, [init(), message("hello")]);
    assert_eq!(fixture.replies()[0].session_id, "s1");
    assert_eq!(fixture.replies()[0].response_text, "");
    assert_eq!(fixture.context().replies[0].session_id, "s1", "the id is worth a refresh");

    writer.add(result()).unwrap();
    assert_eq!(fixture.context().replies[0].response_text, "done", "so is the result");
    let reply = writer.finish(GOOD).unwrap();
    assert_eq!(fixture.replies(), std::slice::from_ref(&reply));
    assert_eq!(fixture.context().replies, std::slice::from_ref(&reply));
    assert_eq!(reply.events.len(), 3);
    assert_eq!((reply.duration_ms, reply.num_turns, reply.is_error), (50, 2, false));
    assert_eq!(reply.usage.input_tokens, 3);
    assert!(OffsetDateTime::parse(&reply.timestamp, &Rfc3339).is_ok(), "{}", reply.timestamp);
    assert_eq!(fixture.read(JOURNAL), None);
}

#[test]
fn reply_without_a_result_ends_with_measured_values() {
    let fixture = Fixture::new();
    let mut writer = fixture.store.begin("q").unwrap();
    writer.add(init()).unwrap();
    writer.add(message("so far")).unwrap();
    let reply = writer.finish(ReplyEnd { is_error: true, ..GOOD }).unwrap();
    assert_eq!((reply.duration_ms, reply.is_error), (7, true));
    assert_eq!(reply.response_text, "so far");
    assert_eq!(fixture.store.session_id_for_resume().unwrap().as_deref(), Some("s1"));
    assert_eq!(fixture.store.last_successful_response().unwrap(), None);
}

#[test]
fn same_request_after_a_kill_is_a_separate_reply() {
    let fixture = Fixture::new();
    let mut killed = fixture.store.begin("a question").unwrap();
    killed.add(init()).unwrap();
    killed.add(message("half")).unwrap();
    drop(killed);
    fixture.reply(&[result()]);
    let replies = fixture.replies();
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[0].events, [init(), message("half")]);
    assert!(replies[0].is_error, "an interrupted reply is not a success");
    assert_eq!(replies[0].response_text, "half");
    assert_eq!(fixture.store.last_successful_response().unwrap().as_deref(), Some("done"));
}

#[test]
fn kill_at_any_byte_of_the_journal_loses_at_most_one_event() {
    let fixture = Fixture::new();
    fixture.reply(&[init(), result()]);
    let mut writer = fixture.store.begin("a question").unwrap();
    let context = fixture.read(CONTEXT).unwrap();
    let events: Vec<_> = (0..6).map(|number| message(&format!("number {number} \n é"))).collect();
    for event in &events {
        writer.add(event.clone()).unwrap();
    }
    drop(writer);
    let journal = fixture.read(JOURNAL).unwrap();

    for length in 0..=journal.len() {
        // As if only the journal had been written since the reply began.
        fixture.write(CONTEXT, &context);
        fixture.write(JOURNAL, &journal[..length]);
        let whole =
            journal[..length].iter().map(|byte| usize::from(*byte == b'\n')).sum::<usize>().saturating_sub(1);
        let replies = fixture.replies();
        assert_eq!(replies.len(), 2, "{length}");
        assert_eq!(replies[1].events, events[..whole], "{length}");
        // Folding needs a whole life of the store; not at each byte.
        if length % 37 == 0 {
            fixture.store.set_model(&length.to_string()).unwrap();
            assert_eq!(fixture.context().replies[1].events, events[..whole], "{length}");
        }
    }
}

#[test]
fn kill_between_any_two_steps_leaves_a_session() {
    let fixture = Fixture::new();
    fixture.reply(&[init(), result()]);
    let before = fixture.read(CONTEXT).unwrap();

    // Begun: the journal exists, the file is not refreshed.
    let mut writer = fixture.store.begin("second").unwrap();
    fixture.write(CONTEXT, &before);
    assert_eq!(fixture.replies()[1].request_text, "second");
    writer.refresh().unwrap();

    // Ended: the journal's last line exists, the file is not refreshed.
    writer.add(message("answer")).unwrap();
    writer.add(result()).unwrap();
    let running = fixture.read(CONTEXT).unwrap();
    let events = std::mem::take(&mut writer.reply.events);
    writer.reply.response_text = "the end".to_owned();
    writer.journal.end(&writer.directory, &writer.reply).unwrap();
    drop(writer);
    fixture.write(CONTEXT, &running);
    assert_eq!(fixture.replies()[1].response_text, "the end");
    assert_eq!(fixture.replies()[1].events, events);

    // Folded: the file is refreshed, the journal still exists; and a partial file that was never
    // renamed.
    let journal = fixture.read(JOURNAL).unwrap();
    fixture.store.set_model("m").unwrap();
    assert_eq!(fixture.read(JOURNAL), None);
    let folded = fixture.replies();
    fixture.write(JOURNAL, &journal);
    fixture.write(".context.json.new", b"{\"exec");
    assert_eq!(fixture.replies(), folded);
    fixture.store.set_model("n").unwrap();
    assert_eq!(fixture.replies(), folded);
    assert_eq!(fixture.replies().len(), 2);
    assert_eq!(fixture.read(".context.json.new"), None);
}

#[test]
fn session_with_any_event_is_readable() {
    let fixture = Fixture::new();
    let hostile =
        [deepest_event(), r#"{"type":3,"session_id":[],"a":"\u0000\n\u2028"}"#.to_owned(), "{}".to_owned()];
    let hostile: Vec<_> = hostile.iter().map(|text| parse_event(text).unwrap()).collect();
    let mut writer = fixture.store.begin("q").unwrap();
    for event in &hostile {
        writer.add(event.clone()).unwrap();
    }
    assert_eq!(fixture.replies()[0].events, hostile);
    drop(writer);
    fixture.reply(&hostile);
    assert_eq!(fixture.context().replies[0].events, hostile);
    assert_eq!(fixture.context().replies[1].events, hostile);
}

#[test]
fn file_newer_than_a_truncated_journal_is_used() {
    let fixture = Fixture::new();
    let mut writer = fixture.store.begin("q").unwrap();
    let journal = fixture.read(JOURNAL).unwrap();
    writer.add(init()).unwrap();
    drop(writer);
    fixture.write(JOURNAL, &journal);
    assert_eq!(fixture.replies()[0].events, [init()]);
    assert_eq!(fixture.replies()[0].session_id, "s1");
}

#[test]
fn clock_jump_changes_only_timestamps() {
    let fixture = Fixture::new();
    for (day, is_killed) in [(20_000, false), (3, true), (40_000, true), (0, false)] {
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400);
        let session = SessionWriter::open(fixture.directory.path(), "c").unwrap();
        let mut writer = session.begin("q", began).unwrap();
        writer.add(init()).unwrap();
        writer.add(message("a")).unwrap();
        if !is_killed {
            writer.finish(GOOD).unwrap();
        }
    }
    let replies = fixture.replies();
    let facts: Vec<_> = replies
        .iter()
        .map(|reply| (reply.timestamp.get(..10).unwrap(), reply.is_error, reply.events.len()))
        .collect();
    let expected = [
        ("2024-10-04", false, 2),
        ("1970-01-04", true, 2),
        ("2079-07-08", true, 2),
        ("1970-01-01", false, 2),
    ];
    assert_eq!(facts, expected);
    assert_eq!(fixture.context().replies, replies);
}

#[test]
fn beyond_the_limit_events_are_counted_and_the_end_is_kept() {
    let fixture = Fixture::new();
    let large = message(&"x".repeat(40 << 10));
    let begin = || {
        let mut writer = fixture.store.begin("q").unwrap();
        writer.budget = Budget::of(660 << 10, 10 << 10);
        writer
    };
    let mut writer = begin();
    writer.add(init()).unwrap();
    for _ in 0..3 {
        writer.add(large.clone()).unwrap();
    }
    assert!(fixture.replies()[0].missing.is_none(), "the control: it fits");
    for _ in 0..5 {
        writer.add(large.clone()).unwrap();
    }
    let length = serde_json::to_vec(&large).unwrap().len() as u64;
    let seen = fixture.replies().remove(0).missing;
    assert_eq!((seen.events, seen.bytes), (4, 4 * length), "written at each doubling");
    drop(writer);
    let mut writer = begin();
    assert_eq!(fixture.context().replies[0].missing, seen, "also after a kill");
    assert_eq!(fixture.context().replies[0].events.len(), 4);

    for _ in 0..5 {
        writer.add(large.clone()).unwrap();
    }
    writer.add(result()).unwrap();
    let reply = writer.finish(GOOD).unwrap();
    assert_eq!((reply.missing.events, reply.missing.bytes), (2, 2 * length));
    assert_eq!(reply.events.last(), Some(&result()));
    assert_eq!(reply.response_text, "done");
    assert_eq!(fixture.replies()[1], reply);
}

#[test]
fn disk_space_of_a_reply_is_bounded_including_its_answer() {
    const ROOM: u64 = 2 << 20;
    let text = "x".repeat(100 << 10);
    let content = json!([{"type": "text", "text": text}]);
    let message = event(&json!({"type": "assistant", "message": {"id": "m", "content": content}}));
    let fixture = Fixture::new();
    let mut writer = fixture.store.begin("q").unwrap();
    writer.budget = Budget::of(ROOM, 0);
    for _ in 0..30 {
        writer.add(message.clone()).unwrap();
    }
    let reply = writer.finish(GOOD).unwrap();
    assert!(reply.response_text.len() >= 3 * text.len(), "the control: all of it is in the answer, too");
    assert!(reply.missing.events > 0);
    let size = fixture.read(CONTEXT).unwrap().len() as u64;
    assert!(size <= ROOM, "{size} bytes");
}

#[test]
fn file_of_another_writer_is_copied_unchanged() {
    let replies = r#" [ {"session_id":"s", "mood":1.10, "events":null} ,
        {"session_id" : "t", "response_text":"\u0041", "events":[{"type":"x"}]}
    ] "#;
    let file = |replies: &str| {
        format!("{{ \"note\":{{\"replies\":[]}},\"replies\":{replies}, \"execution_context_id\":\"c\" }}\n")
    };
    for (replies, count) in [(replies, 2), (" [ ] ", 0), ("null", 0)] {
        let fixture = Fixture::new();
        fixture.write(CONTEXT, file(replies).as_bytes());
        fixture.store.set_model("m").unwrap();
        let inner = replies.trim().trim_matches(['[', ']']).trim();
        let inner = if inner == "null" { "" } else { inner };
        let written = String::from_utf8(fixture.read(CONTEXT).unwrap()).unwrap();
        assert!(written.contains(inner), "{written}");
        assert!(written.contains(r#""note":{"replies":[]}"#), "{written}");
        drop(fixture.store.begin("q").unwrap());
        fixture.reply(&[init()]);
        let sizes: Vec<usize> = fixture.replies().iter().map(|reply| reply.events.len()).collect();
        assert_eq!(sizes, [[0, 1].get(..count).unwrap(), &[0, 1]].concat(), "{replies}");
        let outline = fixture.store.outline().unwrap().unwrap();
        let ids = outline.replies.iter().map(|reply| reply.session_id.clone());
        assert_eq!(
            ids.collect::<Vec<_>>(),
            fixture.replies().iter().map(|reply| reply.session_id.clone()).collect::<Vec<_>>()
        );
        assert_eq!(outline.session_id_for_resume(), Some("s1"));
    }
}

#[test]
fn outline_agrees_with_the_whole_session() {
    let refusal = event(&json!({"type": "result", "is_error": true, "session_id": "s1", "errors": ["none"]}));
    let fixture = Fixture::new();
    let check = || {
        let (whole, outline) =
            (fixture.store.load().unwrap().unwrap(), fixture.store.outline().unwrap().unwrap());
        assert_eq!(outline.session_id_for_resume(), whole.session_id_for_resume());
        assert_eq!(outline.replies, whole.replies.iter().map(ReplyOutline::of).collect::<Vec<_>>());
    };
    fixture.reply(&[init(), message("a"), result()]);
    check();
    fixture.store.begin("q").unwrap().add(refusal.clone()).unwrap();
    check();
    let mut writer = fixture.store.begin("q").unwrap();
    writer.add(refusal).unwrap();
    writer.finish(ReplyEnd { is_error: true, ..GOOD }).unwrap();
    check();
    assert_eq!(fixture.store.session_id_for_resume().unwrap(), None);
}

#[test]
fn journal_of_another_session_is_not_merged() {
    let fixture = Fixture::new();
    drop(fixture.store.begin("q").unwrap());
    let journal = fixture.read(JOURNAL).unwrap();
    let other = Fixture::new();
    other.reply(&[init()]);
    other.write(JOURNAL, &journal);
    assert!(matches!(other.store.load(), Err(SessionError::Damaged { .. })));
}

#[test]
fn event_that_failed_to_be_written_is_written_with_the_next() {
    let fixture = Fixture::new();
    let mut writer = fixture.store.begin("q").unwrap();
    let path = fixture.directory.path().join(JOURNAL);
    let good = std::mem::replace(&mut writer.journal, JournalFile::read_only(&path));
    assert!(matches!(writer.add(init()), Err(SessionError::Io { operation: "write", .. })));
    writer.journal = good;
    writer.add(message("a")).unwrap();
    assert_eq!(fixture.replies()[0].events, [init(), message("a")]);
    assert_eq!(writer.events(), [init(), message("a")]);
}

#[test]
fn readers_see_every_event_that_was_written_when_they_began() {
    const EVENTS: usize = 400;
    let fixture = Fixture::new();
    let written = AtomicUsize::new(0);
    let events: Vec<_> =
        (0..EVENTS).map(|number| message(&format!("{number} {}", "x".repeat(300)))).collect();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            // Two replies, so that a journal is also folded, removed and replaced under the
            // readers.
            for half in events.chunks(EVENTS / 2) {
                let mut writer = fixture.store.begin("q").unwrap();
                for event in half {
                    writer.add(event.clone()).unwrap();
                    written.fetch_add(1, Ordering::SeqCst);
                }
                writer.finish(GOOD).unwrap();
            }
        });
        let mut seen = 0;
        while seen < EVENTS {
            assert!(seen == EVENTS || !writing.is_finished() || written.load(Ordering::SeqCst) == EVENTS);
            let at_least = written.load(Ordering::SeqCst);
            let read: Vec<_> = fixture.replies().into_iter().flat_map(|reply| reply.events).collect();
            assert!(read.len() >= at_least, "{} of {at_least}", read.len());
            assert_eq!(read, events[..read.len()]);
            seen = read.len();
            if at_least > 0 {
                fixture.context();
            }
        }
    });
}

/// The bytes written for a reply of `count` events after a session of `history` bytes, and the size
/// of its file at the end.
fn volume(count: usize, history: usize, event: &StreamEvent) -> (u64, u64) {
    let fixture = Fixture::new();
    fixture.reply(&[message(&"h".repeat(history))]);
    let mut writer = fixture.store.begin("q").unwrap();
    for _ in 0..count {
        writer.add(event.clone()).unwrap();
    }
    let written = writer.written;
    writer.finish(GOOD).unwrap();
    (written, fixture.read(CONTEXT).unwrap().len() as u64)
}

#[test]
fn written_bytes_are_linear_in_the_session_size() {
    let small = message("a short event, of which there are many");
    for (count, history, event) in
        [(10, 0, &small), (20_000, 0, &small), (3_000, 0, &result()), (2_000, 2_000_000, &small)]
    {
        let (written, size) = volume(count, history, event);
        // The journal once, the file at most twice by doubling, and thrice for begin, id and
        // result.
        assert!(
            written <= 6 * size + 3 * LEAST_GROWTH,
            "{count} events: {written} bytes for a file of {size}"
        );
    }
}

#[test]
fn program_that_reads_only_the_file_sees_progress() {
    let fixture = Fixture::new();
    let mut writer = fixture.store.begin("q").unwrap();
    let event = message("a short event, of which there are many");
    for number in 1..=3_000 {
        writer.add(event.clone()).unwrap();
        if number % 500 == 0 {
            let visible = fixture.context().replies[0].events.len();
            assert!(visible * 3 >= number, "{visible} of {number}");
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Begin,
    Event(StreamEvent),
    Finish,
    Kill,
    /// A kill during the write of the last line: so many bytes of it are missing.
    Tear(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let events = prop_oneof![
        Just(init()),
        Just(result()),
        "\\PC{0,20}".prop_map(|text| message(&text)),
        (1_000..30_000usize).prop_map(|length| message(&"x".repeat(length))),
        any::<f64>().prop_map(|number| event(&json!({"type": "x", "number": number}))),
    ];
    prop_oneof![
        2 => Just(Step::Begin),
        8 => events.prop_map(Step::Event),
        1 => Just(Step::Finish),
        1 => Just(Step::Kill),
        1 => (1..60usize).prop_map(Step::Tear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_steps_the_session_has_the_events_so_far(steps in proptest::collection::vec(step(), 1..40)) {
        let fixture = Fixture::new();
        let mut expected: Vec<Vec<StreamEvent>> = Vec::new();
        let mut writer = None;
        for step in steps {
            match step {
                Step::Begin if writer.is_none() => {
                    writer = Some(fixture.store.begin("q").unwrap());
                    expected.push(Vec::new());
                }
                Step::Event(event) => {
                    if let Some(writer) = &mut writer {
                        ReplyWriter::add(writer, event.clone()).unwrap();
                        expected.last_mut().unwrap().push(event);
                    }
                }
                Step::Finish => {
                    if let Some(writer) = writer.take() {
                        writer.finish(GOOD).unwrap();
                    }
                }
                Step::Tear(missing) if writer.take().is_some() => {
                    let journal = fixture.read(JOURNAL).unwrap();
                    let last_line = journal[..journal.len() - 1].iter().rposition(|byte| *byte == b'\n');
                    // The first line is never torn: it arrives by a rename.
                    if let Some(end) = last_line {
                        fixture.write(JOURNAL, &journal[..journal.len().saturating_sub(missing).max(end + 1)]);
                        let in_file = fixture.context().replies.last().unwrap().events.len();
                        let events = expected.last_mut().unwrap();
                        if in_file < events.len() {
                            events.pop();
                        }
                    }
                }
                Step::Kill => writer = None,
                Step::Begin | Step::Tear(_) => {}
            }
            let read: Vec<_> = fixture.replies().into_iter().map(|reply| reply.events).collect();
            prop_assert_eq!(&read, &expected);
            if let Some(file) = fixture.read(CONTEXT) {
                serde_json::from_slice::<SessionMetadata>(&file).unwrap();
            }
        }
    }
}
