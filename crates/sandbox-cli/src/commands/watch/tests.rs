//! The screen, drawn to memory.

use std::time::{Duration, Instant};

use allowlist::{Allowlist, RuleChange};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sandbox::network_event::{PolicyState, Verdict};

use super::row::Mark;
use super::run::{ROWS, Shown};
use super::seen::READING;
use super::state::{Effect, Job, Order, Over, State};
use super::view;
use crate::config::PolicySource;
use crate::control::{Question, Report, ToolCall};

const NOW: u64 = 1_770_122_696_000;
/// Text that a task may put into a URL, a header or a name.
const HOSTILE: &str = "<script>\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}\u{200b}\u{9b}31m\r\n";

fn report(run: &str, started_ms: u64) -> Report {
    Report {
        run: run.to_owned(),
        pid: 7,
        project: "/home/ada/src/shop".to_owned(),
        program: "claude".to_owned(),
        shield: Some(PolicyState::Up),
        until_ms: None,
        policy: Some(Allowlist::from_yaml("domains: [open.test]\n", "p").unwrap()),
        policy_source: Some(PolicySource {
            config: None,
            file: "/home/ada/src/shop/.sandbox/network-allowlist.yaml".into(),
            is_flag: false,
        }),
        started_ms,
        screen: None,
        questions: Vec::new(),
        tools: Vec::new(),
        cost: None,
    }
}

fn tool(number: u64, line: &str) -> ToolCall {
    ToolCall { number, name: "Bash".to_owned(), line: line.to_owned(), at_ms: NOW }
}

fn request(decision: &str, method: &str, host: &str, target: &str, rest: &str) -> String {
    let text = |text: &str| serde_json::to_string(text).unwrap();
    format!(
        r#"{{"v":1,"time":"2026-02-03T12:34:56.789Z","event":"request","decision":"{decision}","method":{},"scheme":"https","host":{},"target":{},"status":200,"rule":null,"reason":null,"error":null,"bytes_up":12,"bytes_down":34567,"first_byte_ms":3,"duration_ms":120{rest}}}"#,
        text(method),
        text(host),
        text(target)
    )
    .replace(r#""reason":null,"error":null"#, if decision == "blocked" { r#""reason":"host","error":null"# } else { r#""reason":null,"error":null"# })
}

/// Two runs, the older one with requests of all kinds.
fn state() -> State {
    let mut state = State::new(Some("3fa2c1d4e5".to_owned()));
    let down = Report {
        shield: Some(PolicyState::Down),
        until_ms: Some(NOW + 540_000),
        program: "make".to_owned(),
        ..report("77b0aa9912", NOW - 4000)
    };
    state.take_reports(vec![report("3fa2c1d4e5", NOW - 754_000), down], NOW);
    let run = state.run_mut("3fa2c1d4e5").unwrap();
    let tokens = r#","tokens":{"input":12345,"output":678}"#;
    for line in [
        &request("allowed", "POST", "api.open.test", "/v1/messages", tokens),
        &request("allowed", "GET", "open.test", "/hello", ""),
        &request("blocked", "GET", "evil.test", "/steal?what=all", ""),
        r#"{"v":1,"time":"2026-02-03T12:35:01.000Z","event":"request_open","method":"GET","scheme":"https","host":"open.test","target":"/stream"}"#,
        r#"{"v":1,"time":"2026-02-03T12:35:02.000Z","event":"dns","kind":"A","name":"x","answer":"nodata"}"#,
        r#"{"v":1,"time":"2026-02-03T12:35:03.000Z","event":"port_refused","protocol":"udp","port":443}"#,
        r#"{"v":1,"time":"2026-02-03T12:35:04.000Z","event":"policy","change":"up","state":"up","until_ms":null}"#,
        &request("blocked", "POST", "evil.test", "/collect", r#","repeated":26"#),
    ] {
        run.take(line);
    }
    state
}

/// Presses each key after the screen could be read.
fn press(state: &mut State, keys: &str) -> Option<Effect> {
    keys.chars().map(|c| press_key(state, KeyCode::Char(c))).last().flatten()
}

fn press_key(state: &mut State, key: KeyCode) -> Option<Effect> {
    let at = Instant::now();
    state.drawn(true, at);
    state.press(KeyEvent::new(key, KeyModifiers::NONE), at + READING)
}

fn drawn(state: &State, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| _ = view::draw(state, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().to_string()
}

#[test]
fn usual_screen() {
    insta::assert_snapshot!(drawn(&state(), 80, 24));
}

#[test]
fn large_screen() {
    insta::assert_snapshot!(drawn(&state(), 130, 32));
}

#[test]
fn tool_calls_of_an_agent_are_lines_once_and_its_cost_is_shown() {
    let mut state = state();
    for (tools, cost) in [(0..0, None), (0..2, None), (1..3, Some(0.5))] {
        let tools = tools.map(|number| tool(number, &format!("make {number}"))).collect();
        state.take_reports(vec![Report { tools, cost, ..report("3fa2c1d4e5", NOW - 754_000) }], NOW);
    }
    let screen = drawn(&state, 130, 32);
    for number in 0..3 {
        let line = format!("12:44:56 · TOOL    Bash make {number}");
        assert_eq!(screen.matches(&line).count(), 1, "{line}: {screen}");
    }
    assert!(screen.contains("cost $0.50"), "{screen}");
    press(&mut state, "b");
    assert!(!drawn(&state, 80, 24).contains("TOOL"));
}

#[test]
fn no_run() {
    let mut state = State::new(None);
    state.take_reports(Vec::new(), NOW);
    insta::assert_snapshot!(drawn(&state, 80, 14));
}

#[test]
fn no_size_and_no_key_panics() {
    let mut state = state();
    for keys in ["", "?", " a", "\u{1b}d", "nQ", "n/x", "\u{1b}"] {
        press(&mut state, keys);
        for columns in 1..90 {
            for rows in [1, 5, 11, 12, 13, 17, 18, 24, 30] {
                drawn(&state, columns, rows);
            }
        }
    }
    assert!(drawn(&state, 49, 30).contains("too small"));
}

#[test]
fn hostile_text_is_shown_and_has_no_effect() {
    let mut state = State::new(None);
    let hostile = Report {
        program: format!("sh{HOSTILE}{}", "x".repeat(5000)),
        project: format!("/srv/{HOSTILE}日本"),
        questions: vec![Question {
            id: 4,
            method: "GET".to_owned(),
            url: format!("https://a.test/{HOSTILE}"),
            rule: HOSTILE.to_owned(),
            asked_ms: NOW,
            until_ms: NOW + 42_000,
        }],
        tools: vec![tool(0, HOSTILE)],
        ..report(HOSTILE, NOW)
    };
    state.take_reports(vec![hostile], NOW);
    let run = state.run_mut(HOSTILE).unwrap();
    run.take(&request("blocked", HOSTILE, HOSTILE, HOSTILE, ""));
    run.take(&request("error", "GET", &"w".repeat(5000), &format!("/{}", "日".repeat(5000)), ""));
    let text = serde_json::to_string(HOSTILE).unwrap();
    let time = r#""time":"2026-02-03T12:34:56.789Z""#;
    run.take(&format!(r#"{{"v":1,{time},"event":"warning","text":{text}}}"#));
    run.take(&format!(
        r#"{{"v":1,{time},"event":"tls_refused","server_name":{text},"alert":{text},"reason":null}}"#
    ));
    run.take(&format!(r#"{{"v":1,"time":{text},"event":"limit","limit":{text},"count":3}}"#));
    run.take(HOSTILE);
    state.set_message(HOSTILE, true);
    let screen = drawn(&state, 110, 30);
    insta::assert_snapshot!(screen);
    for key in ["1", "n2", "nQ"] {
        press(&mut state, key);
        let screen = drawn(&state, 110, 30);
        assert!(!screen.contains(|c: char| c != '\n' && c.is_control()), "{screen:?}");
        assert!(!screen.contains(['\u{200b}', '\u{202e}']), "{screen:?}");
    }
}

#[test]
fn only_yes_allows_exactly_the_shown_rule() {
    let mut state = state();
    press(&mut state, "a");
    insta::assert_snapshot!(drawn(&state, 80, 24));
    assert_eq!(press(&mut state, "n"), None);
    assert!(matches!(state.over, Over::Nothing));
    for other in [KeyCode::Enter, KeyCode::Esc, KeyCode::Char(' '), KeyCode::Char('a')] {
        press(&mut state, "a");
        assert_eq!(press_key(&mut state, other), None, "{other:?}");
    }
    let order = |job| Some(Effect::Order(Order { run: "3fa2c1d4e5".to_owned(), job }));
    let rule = "POST evil.test/collect".parse().unwrap();
    assert_eq!(
        press(&mut state, "ay"),
        order(Job::Change { change: Box::new(RuleChange::Allow(rule)), with_file: false })
    );
    press(&mut state, "A");
    press_key(&mut state, KeyCode::Down);
    let rule = "evil.test".parse().unwrap();
    assert_eq!(
        press(&mut state, "y"),
        order(Job::Change { change: Box::new(RuleChange::Allow(rule)), with_file: true })
    );
    // New requests do not change the question.
    press_key(&mut state, KeyCode::End);
    press(&mut state, "a");
    state.run_mut("3fa2c1d4e5").unwrap().take(&request("blocked", "GET", "other.test", "/", ""));
    let rule = "POST evil.test/collect".parse().unwrap();
    assert_eq!(
        press(&mut state, "y"),
        order(Job::Change { change: Box::new(RuleChange::Allow(rule)), with_file: false })
    );
    // A request that passed needs no rule.
    press_key(&mut state, KeyCode::Home);
    press_key(&mut state, KeyCode::Down);
    assert_eq!(press(&mut state, "ay"), None);
    let rule = "GET open.test/hello".parse().unwrap();
    assert_eq!(
        press(&mut state, "dy"),
        order(Job::Change { change: Box::new(RuleChange::Deny(rule)), with_file: false })
    );
    press(&mut state, "D");
    press_key(&mut state, KeyCode::Down);
    let rule = "open.test".parse().unwrap();
    assert_eq!(
        press(&mut state, "y"),
        order(Job::Change { change: Box::new(RuleChange::Deny(rule)), with_file: true })
    );
    for (key, job) in [("Q", Job::Quarantine), ("u", Job::Up), ("s", Job::Stop)] {
        assert_eq!(press(&mut state, key), None);
        assert_eq!(press(&mut state, "y"), order(job));
    }
    // A policy without a file is changed in the run only.
    let of_bundle = Report { policy_source: None, ..report("3fa2c1d4e5", NOW - 754_000) };
    state.take_reports(vec![of_bundle], NOW);
    assert_eq!(press(&mut state, "D"), None);
    assert!(drawn(&state, 120, 24).contains("use the same key in lower case"));
    press(&mut state, "d");
    assert!(matches!(state.over, Over::Confirmation(_)));
    press(&mut state, "n");
    // An ended run gets no orders.
    state.take_reports(Vec::new(), NOW);
    assert_eq!(press(&mut state, "Qy"), None);
}

#[test]
fn pending_request_is_answered() {
    let mut state = state();
    let question = |id, asked_ms| Question {
        id,
        method: "PUT".to_owned(),
        url: "https://wait.test/x".to_owned(),
        rule: "{host: wait.test, path: /x, methods: [PUT]}".to_owned(),
        asked_ms,
        until_ms: NOW + 42_000,
    };
    let asking =
        Report { questions: vec![question(3, NOW), question(4, NOW)], ..report("77b0aa9912", NOW - 4000) };
    state.take_reports(vec![report("3fa2c1d4e5", NOW - 754_000), asking], NOW);
    insta::assert_snapshot!(drawn(&state, 80, 24));
    let order = |verdict| {
        Some(Effect::Order(Order { run: "77b0aa9912".to_owned(), job: Job::Decide { question: 3, verdict } }))
    };
    assert_eq!(press(&mut state, "4"), order(Verdict::No));
    assert_eq!(press(&mut state, "1"), None);
    assert!(drawn(&state, 80, 24).contains("│ wait.test "));
    assert_eq!(press(&mut state, "y"), order(Verdict::Once));
    for (key, note, verdict) in
        [("2", "no file is changed", Verdict::Run), ("3", "and is added to", Verdict::Always)]
    {
        press(&mut state, key);
        let screen = drawn(&state, 80, 24);
        assert!(screen.contains("+ {host: wait.test, path: /x, methods: [PUT]}"), "{screen}");
        assert!(screen.contains(note), "{screen}");
        assert_eq!(press(&mut state, "y"), order(verdict));
    }
    // Keys for the lists answer no question.
    assert_eq!(press(&mut state, "a"), None);
    assert!(drawn(&state, 80, 24).contains("+ {host: evil.test, path: /collect, methods: [POST]}"));
    assert!(matches!(press(&mut state, "y"), Some(Effect::Order(Order { job: Job::Change { .. }, .. }))));
}

#[test]
fn key_answers_only_a_question_that_could_be_read() {
    let question = |id, url: &str| Question {
        id,
        method: "GET".to_owned(),
        url: url.to_owned(),
        rule: "wait.test".to_owned(),
        asked_ms: NOW,
        until_ms: NOW + 42_000,
    };
    let run = |question| Report { questions: vec![question], ..report("77b0aa9912", NOW - 4000) };
    let mut state = State::new(None);
    state.take_reports(vec![run(question(3, "https://wait.test/"))], NOW);
    let begin = Instant::now();
    let key =
        |state: &mut State, key, at| state.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE), at);
    let is_order = |effect| matches!(effect, Some(Effect::Order(_)));
    let almost = Duration::from_millis(499);
    assert!(!is_order(key(&mut state, '4', begin + READING)), "it was never drawn");
    state.drawn(true, begin);
    assert!(!is_order(key(&mut state, '4', begin + almost)));
    state.drawn(true, begin + almost);
    assert!(is_order(key(&mut state, '4', begin + READING)), "the control");
    // Another question takes its place, also with the same number.
    for other in [question(4, "https://wait.test/"), question(4, "https://evil.test/")] {
        state.take_reports(vec![run(other)], NOW);
        assert!(!is_order(key(&mut state, '4', begin + READING * 2)));
        state.drawn(true, begin + READING * 2);
        assert!(!is_order(key(&mut state, '4', begin + READING * 2)));
    }
    // Typed ahead, or for a confirmation that does not fit the terminal.
    let at = begin + READING * 3;
    key(&mut state, '1', at);
    assert!(!is_order(key(&mut state, 'y', at + READING)));
    state.drawn(false, at);
    assert!(!is_order(key(&mut state, 'y', at + READING)));
    state.drawn(true, at);
    assert!(!is_order(key(&mut state, 'y', at + almost)));
    assert!(matches!(state.over, Over::Confirmation(_)), "what is too early closes nothing");
    assert!(is_order(key(&mut state, 'y', at + READING)), "the control");
}

#[test]
fn confirmation_that_does_not_fit_is_refused() {
    for (length, columns, rows, is_whole) in [
        (1000, 80, 24, true),
        (1400, 80, 24, false),
        (1400, 130, 32, true),
        (300, 50, 12, false),
        (20, 50, 12, true),
    ] {
        let url = format!("https://wait.test/{}", "x".repeat(length));
        let question = Question {
            id: 3,
            method: "GET".to_owned(),
            url,
            rule: "wait.test".to_owned(),
            asked_ms: NOW,
            until_ms: NOW,
        };
        let mut state = State::new(None);
        state.take_reports(vec![Report { questions: vec![question], ..report("77b0aa9912", NOW) }], NOW);
        press(&mut state, "1");
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        let mut drawn = !is_whole;
        terminal.draw(|frame| drawn = view::draw(&state, frame.area(), frame.buffer_mut())).unwrap();
        let screen = terminal.backend().to_string();
        assert_eq!(drawn, is_whole, "{screen}");
        assert_eq!(screen.contains("too small"), !is_whole, "{screen}");
        assert_eq!(screen.matches("xxxxxxxxxx").count() > 0, is_whole || rows > 12, "{screen}");
    }
}

#[test]
fn lists_are_filtered_followed_and_bounded() {
    let mut state = state();
    press(&mut state, "/EVIL");
    assert!(drawn(&state, 80, 24).contains(" / evil▏"));
    press_key(&mut state, KeyCode::Enter);
    let selected = |state: &State| state.selected().map(|row| row.place.clone()).unwrap_or_default();
    assert_eq!(selected(&state), "https://evil.test/collect");
    press_key(&mut state, KeyCode::Up);
    assert_eq!(selected(&state), "https://evil.test/steal?what=all");
    press_key(&mut state, KeyCode::Esc);
    assert_eq!(selected(&state), "https://evil.test/steal?what=all", "it stays selected");
    press(&mut state, "b");
    let run = state.run_mut("3fa2c1d4e5").unwrap();
    assert_eq!(run.rows(&Shown { blocked_only: true, ..Shown::default() }).len(), 3);
    // A request in progress ends: it stays one line.
    let open = |state: &State| {
        state
            .chosen_run()
            .unwrap()
            .rows(&Shown::default())
            .iter()
            .filter(|row| row.mark == Mark::Open)
            .count()
    };
    assert_eq!(open(&state), 1);
    let run = state.run_mut("3fa2c1d4e5").unwrap();
    run.take(&request("allowed", "GET", "open.test", "/stream", ""));
    assert_eq!(open(&state), 0);
    let run = state.run_mut("3fa2c1d4e5").unwrap();
    for number in 0..ROWS * 2 {
        run.take(&request("allowed", "GET", "open.test", &format!("/{number}"), ""));
    }
    assert_eq!(run.rows(&Shown::default()).len(), ROWS);
    press(&mut state, "b");
    assert_eq!(selected(&state), format!("https://open.test/{ROWS}"), "the oldest that is left");
    press_key(&mut state, KeyCode::End);
    assert_eq!(selected(&state), format!("https://open.test/{}", ROWS * 2 - 1));
    press_key(&mut state, KeyCode::Tab);
    assert_eq!(state.chosen_run().unwrap().report.run, "77b0aa9912");
    press_key(&mut state, KeyCode::BackTab);
    assert_eq!(state.chosen_run().unwrap().report.run, "3fa2c1d4e5");
}

#[test]
fn ended_runs_are_kept_for_a_limited_time() {
    let mut state = state();
    for number in 0..50 {
        state.take_reports(vec![report(&format!("{number:010}"), NOW + number)], NOW + number);
    }
    assert!(state.runs.len() < 12, "{}", state.runs.len());
    assert!(drawn(&state, 80, 24).contains("■ ended"));
}

#[test]
fn quit_keys_end_the_view() {
    let mut state = state();
    assert_eq!(press(&mut state, "q"), Some(Effect::Leave));
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!(state.press(control('c'), Instant::now()), Some(Effect::Interrupt));
    assert_eq!(state.press(control('z'), Instant::now()), Some(Effect::Suspend));
}
