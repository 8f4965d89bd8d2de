//! The channel to a proxy: commands in, records out.
//!
//! One task owns both directions. It ends on request, when the proxy ends, and when a record cannot
//! be stored: without a log there is no egress.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream::Fuse;
use futures_util::{Stream, StreamExt as _};
use sandbox_proxy_protocol::{
    Command, Event, PolicyChange, ProxyMessage, Record, Traffic, from_line, to_secret_line,
};
use time::OffsetDateTime;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tracing::Instrument as _;

use super::lines::Lines;
use super::stderr::ProxyLog;
use crate::container::{Chunk, Output, Stdin};
use crate::egress::ShieldState;
use sandbox_network_log::LogSink;
use sandbox_podman::EngineError;

/// How long a proxy may take to read a command, and to end after its stdin is closed.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long a draining proxy may be silent.
const DRAINING: Duration = Duration::from_secs(10);
/// The interval at which the proxy is notified that its records are read.
const BEAT: Duration = Duration::from_secs(2);
/// Commands are rare; a caller that sends many waits.
const ORDERS: usize = 16;

/// Both directions of a proxy's stdio.
pub(in crate::egress) struct Channel<W = Stdin, O = Output> {
    stdin: W,
    /// May be polled again after its end.
    output: Fuse<O>,
    lines: Lines,
    /// Received with the ready message and not yet handled.
    waiting: Vec<ProxyMessage>,
    /// An invalid line after the last message.
    invalid: Option<String>,
    proxy_log: ProxyLog,
}

/// A command that the proxy confirms.
#[derive(Debug)]
pub(in crate::egress) struct Order {
    pub(in crate::egress) command: Command,
    pub(in crate::egress) answer: Answer,
}

/// The receiver of the answer to a command.
#[derive(Debug)]
pub(in crate::egress) enum Answer {
    /// Gets the resulting state, once it is in force and logged.
    State(oneshot::Sender<ShieldState>),
    /// None: the result is only logged.
    None,
    /// Gets the traffic so far.
    Traffic(oneshot::Sender<Traffic>),
}

/// The receivers of pending answers, in the order in which the proxy answers.
#[derive(Default)]
struct Waiting {
    states: VecDeque<oneshot::Sender<ShieldState>>,
    traffic: VecDeque<oneshot::Sender<Traffic>>,
}

/// The handle of a proxy's user.
pub(in crate::egress) struct ChannelHandle {
    /// Dropping it ends the channel, and with it the proxy.
    pub(in crate::egress) orders: mpsc::Sender<Order>,
    /// The state that the proxy reported last.
    pub(in crate::egress) shield: watch::Receiver<ShieldState>,
    /// The proxy's questions and their ends, once they are logged.
    pub(in crate::egress) questions: mpsc::UnboundedReceiver<Record>,
    /// Why the proxy ended; `None` while it runs.
    pub(in crate::egress) ended: watch::Receiver<Option<String>>,
}

impl<W, O> Channel<W, O>
where
    W: AsyncWrite + Send + Unpin + 'static,
    O: Stream<Item = Result<Chunk, EngineError>> + Send + Unpin + 'static,
{
    /// The channel to the proxy of the task with the context `context`.
    pub(super) fn new(stdin: W, output: O, context: &str) -> Self {
        Self {
            stdin,
            output: output.fuse(),
            lines: Lines::default(),
            waiting: Vec::new(),
            invalid: None,
            proxy_log: ProxyLog::new(context.to_owned()),
        }
    }

    pub(super) async fn send(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.stdin.write_all(line).await?;
        self.stdin.flush().await
    }

    /// The next messages; `None` when the proxy has closed its stdout. A line that is not a message
    /// is an error.
    pub(super) async fn receive(&mut self) -> Option<Result<Vec<ProxyMessage>, String>> {
        loop {
            if !self.waiting.is_empty() {
                return Some(Ok(std::mem::take(&mut self.waiting)));
            }
            if let Some(problem) = self.invalid.take() {
                return Some(Err(problem));
            }
            match self.output.next().await? {
                Ok(Chunk::Stdout(bytes)) => self.decode(&bytes),
                Ok(Chunk::Stderr(bytes)) => self.proxy_log.add(&bytes),
                Err(error) => return Some(Err(format!("the channel to it broke: {error}"))),
            }
        }
    }

    /// Returns `messages` to the channel, to be received next.
    pub(super) fn put_back(&mut self, messages: Vec<ProxyMessage>) {
        self.waiting = messages;
    }

    /// The end of the proxy's standard error, escaped.
    pub(super) fn stderr(&mut self) -> String {
        self.proxy_log.tail()
    }

    /// Moves records into `log` and commands to the proxy, in the background.
    pub(in crate::egress) fn run(self, log: Option<LogSink>) -> ChannelHandle {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let (report, shield) = watch::channel(ShieldState::default());
        let (asked, questions) = mpsc::unbounded_channel();
        let (ended_sender, ended) = watch::channel(None);
        let serving = async move {
            let reason = self.serve(log, receiver, report, asked).await;
            ended_sender.send_replace(Some(reason));
        };
        tokio::spawn(serving.in_current_span());
        ChannelHandle { orders, shield, questions, ended }
    }

    async fn serve(
        mut self,
        log: Option<LogSink>,
        mut orders: mpsc::Receiver<Order>,
        report: watch::Sender<ShieldState>,
        asked: mpsc::UnboundedSender<Record>,
    ) -> String {
        let mut log = log;
        let mut waiting = Waiting::default();
        let mut beat = interval_at(Instant::now() + BEAT, BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let failure = loop {
            tokio::select! {
                received = self.receive() => match received {
                    Some(Ok(messages)) => {
                        let (answers, questions) = (answers(&messages), questions(&messages));
                        if let Err(reason) = keep(messages, &mut log).await { break Some(reason) }
                        // Ignored if the caller has no callback.
                        for question in questions {
                            let _ = asked.send(question);
                        }
                        waiting.answer(answers, &report);
                    }
                    Some(Err(reason)) => break Some(reason),
                    None => break Some(self.reason_of_end()),
                },
                order = orders.recv() => match order {
                    Some(Order { command, answer }) => {
                        match answer {
                            Answer::State(confirmed) => waiting.states.push_back(confirmed),
                            Answer::None => {}
                            Answer::Traffic(reported) => waiting.traffic.push_back(reported),
                        }
                        if let Err(reason) = self.command(&command).await { break Some(reason) }
                    }
                    None => break None,
                },
                _ = beat.tick() => if let Err(reason) = self.command(&Command::Alive {}).await { break Some(reason) },
            }
        };
        // Nothing is confirmed any more.
        drop((orders, waiting));
        if let Some(reason) = &failure {
            let text = format!("the egress proxy ended while the task ran: {reason}");
            tracing::warn!(execution = self.proxy_log.execution(), "{text}");
            let _ = append(&mut log, vec![Record { at_ms: now_ms(), event: Event::Warning { text } }]).await;
        }
        self.end(failure.is_none(), &mut log).await;
        if let Some(log) = &mut log
            && let Err(error) = log.finish(now_ms()).await
        {
            tracing::warn!(%error, "failed to record in the network log that it is incomplete");
        }
        failure.unwrap_or_else(|| "it was asked to".to_owned())
    }

    fn reason_of_end(&mut self) -> String {
        let stderr = self.stderr();
        if stderr.is_empty() { "it closed its output".to_owned() } else { stderr }
    }

    async fn command(&mut self, command: &Command) -> Result<(), String> {
        let line = to_secret_line(command).map_err(|error| error.to_string())?;
        match timeout(TIMEOUT, self.send(&line)).await {
            Ok(sent) => sent.map_err(|error| format!("it takes no commands: {error}")),
            Err(_) => Err("it takes no commands".to_owned()),
        }
    }

    /// Lets requests in progress complete if `drain` is set, closes the proxy's stdin, which ends
    /// it, and stores its remaining records.
    async fn end(mut self, drain: bool, log: &mut Option<LogSink>) {
        if drain && self.command(&Command::Drain {}).await.is_ok() {
            self.rest(DRAINING, log).await;
        }
        let _ = timeout(TIMEOUT, self.stdin.shutdown()).await;
        self.rest(TIMEOUT, log).await;
        self.proxy_log.finish();
    }

    /// Stores remaining records until none has come for `silence`: a task may have caused thousands
    /// of records in its last moment to hide the last of them.
    async fn rest(&mut self, silence: Duration, log: &mut Option<LogSink>) {
        while let Ok(Some(Ok(messages))) = timeout(silence, self.receive()).await {
            if keep(messages, log).await.is_err() {
                break;
            }
        }
    }

    /// Everything before a line that is not a message is valid.
    fn decode(&mut self, bytes: &[u8]) {
        match self.lines.add(bytes) {
            Ok(lines) => {
                for line in lines {
                    match from_line(&line) {
                        Ok(message) => self.waiting.push(message),
                        Err(error) => {
                            self.invalid = Some(format!("it sent an invalid message: {error}"));
                            break;
                        }
                    }
                }
            }
            Err(problem) => self.invalid = Some(problem),
        }
    }
}

/// The answers to commands among received messages.
enum Answered {
    Change(PolicyChange, ShieldState),
    Traffic(Traffic),
}

fn answers(messages: &[ProxyMessage]) -> Vec<Answered> {
    let answers = messages.iter().filter_map(|message| match message {
        ProxyMessage::Record(record) => {
            ShieldState::of(&record.event).map(|(change, state)| Answered::Change(change, state))
        }
        ProxyMessage::Traffic(traffic) => Some(Answered::Traffic(*traffic)),
        ProxyMessage::Ready { .. } | ProxyMessage::Failed { .. } => None,
    });
    answers.collect()
}

fn questions(messages: &[ProxyMessage]) -> Vec<Record> {
    let questions = messages.iter().filter_map(|message| match message {
        ProxyMessage::Record(record)
            if matches!(record.event, Event::Asked { .. } | Event::Answered { .. }) =>
        {
            Some(record.clone())
        }
        _ => None,
    });
    questions.collect()
}

impl Waiting {
    /// Publishes logged changes, and answers the callers, which may have stopped waiting.
    fn answer(&mut self, answers: Vec<Answered>, report: &watch::Sender<ShieldState>) {
        for answer in answers {
            match answer {
                Answered::Traffic(traffic) => {
                    let _ = self.traffic.pop_front().map(|reported| reported.send(traffic));
                }
                Answered::Change(change, state) => {
                    report.send_replace(state);
                    if change != PolicyChange::Expired {
                        let _ = self.states.pop_front().map(|confirmed| confirmed.send(state));
                    }
                }
            }
        }
    }
}

/// Stores the received messages; an error states why the proxy cannot continue.
async fn keep(messages: Vec<ProxyMessage>, log: &mut Option<LogSink>) -> Result<(), String> {
    let mut failed = None;
    let mut records = Vec::new();
    for message in messages {
        match message {
            ProxyMessage::Record(record) => records.push(record),
            ProxyMessage::Traffic(_) => {}
            ProxyMessage::Failed { reason } => failed = Some(reason),
            ProxyMessage::Ready { .. } => failed = Some("it sent a second ready message".to_owned()),
        }
    }
    append(log, records).await?;
    failed.map_or(Ok(()), Err)
}

async fn append(log: &mut Option<LogSink>, records: Vec<Record>) -> Result<(), String> {
    match log {
        Some(sink) if !records.is_empty() => sink
            .append(records)
            .await
            .map_err(|error| format!("failed to store its records: {}", chain(&error))),
        _ => Ok(()),
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn now_ms() -> u64 {
    u64::try_from(OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use bytes::Bytes;
    use futures_util::stream::{BoxStream, unfold};
    use sandbox_proxy_protocol::{PROTOCOL_VERSION, to_line};
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, DuplexStream};

    use super::*;

    type Chunks = mpsc::UnboundedSender<Chunk>;
    type TestChannel = Channel<DuplexStream, BoxStream<'static, Result<Chunk, EngineError>>>;

    /// A channel, and the ends of a proxy.
    fn channel() -> (TestChannel, BufReader<DuplexStream>, Chunks) {
        let (stdin, proxy_stdin) = tokio::io::duplex(64 * 1024);
        let (proxy_output, output) = mpsc::unbounded_channel();
        let output = unfold(output, async |mut output| output.recv().await.map(|chunk| (Ok(chunk), output)));
        (Channel::new(stdin, output.boxed(), "task-1"), BufReader::new(proxy_stdin), proxy_output)
    }

    fn send(proxy: &Chunks, text: &str) {
        proxy.send(Chunk::Stdout(Bytes::copy_from_slice(text.as_bytes()))).unwrap();
    }

    fn warning(text: &str) -> String {
        let event = Event::Warning { text: text.to_owned() };
        to_line(&ProxyMessage::Record(Record { at_ms: 0, event })).unwrap()
    }

    fn log(dir: &Path) -> String {
        fs::read_to_string(dir.join("network-sandbox.log")).unwrap()
    }

    /// Makes a file as long as its file system permits: nothing can be appended.
    fn fill(path: &Path) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        let longer = |length, bit: u32| {
            let more = length | 1_u64 << bit;
            if file.set_len(more).is_ok() { more } else { length }
        };
        (0..63).rev().fold(0, longer);
    }

    async fn ended(handle: &mut ChannelHandle) -> String {
        let ended = timeout(Duration::from_secs(10), handle.ended.wait_for(Option::is_some));
        ended.await.expect("the channel does not end").unwrap().clone().unwrap()
    }

    #[tokio::test]
    async fn messages_after_the_ready_message_are_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (mut channel, _stdin, proxy) = channel();
        let ready = to_line(&ProxyMessage::Ready { protocol: PROTOCOL_VERSION, unconfined: None }).unwrap();
        let text = format!("{ready}{}", warning("early"));
        let (half, rest) = text.split_at(9);
        send(&proxy, half);
        send(&proxy, rest);
        let mut messages = channel.receive().await.unwrap().unwrap().into_iter();
        assert!(matches!(messages.next(), Some(ProxyMessage::Ready { .. })));
        channel.put_back(messages.collect());
        let mut handle = channel.run(Some(LogSink::open(dir.path()).unwrap()));
        drop(proxy);
        ended(&mut handle).await;
        assert!(log(dir.path()).starts_with("WARNING early\n"));
    }

    #[tokio::test]
    async fn commands_reach_the_proxy_and_dropping_closes_its_stdin() {
        let dir = tempfile::tempdir().unwrap();
        let (channel, mut stdin, proxy) = channel();
        let mut handle = channel.run(Some(LogSink::open(dir.path()).unwrap()));
        let (confirmed, confirmation) = oneshot::channel();
        handle
            .orders
            .send(Order { command: Command::Quarantine {}, answer: Answer::State(confirmed) })
            .await
            .unwrap();
        let mut line = String::new();
        stdin.read_line(&mut line).await.unwrap();
        assert_eq!(line, to_line(&Command::Quarantine {}).unwrap());
        // An expired shield answers nothing, and an answer counts once it is logged.
        let state = sandbox_proxy_protocol::PolicyState::Quarantine;
        for change in [PolicyChange::Expired, PolicyChange::Quarantine] {
            let event = Event::Policy { change, state, until_ms: None };
            send(&proxy, &to_line(&ProxyMessage::Record(Record { at_ms: 0, event })).unwrap());
        }
        assert_eq!(confirmation.await.unwrap(), ShieldState::Quarantined);
        let changed = log(dir.path());
        assert_eq!(changed, "POLICY expired -> quarantine\nPOLICY quarantine -> quarantine\n");
        assert_eq!(*handle.shield.borrow(), ShieldState::Quarantined);
        let (closed, _) = mpsc::channel(1);
        drop(std::mem::replace(&mut handle.orders, closed));
        line.clear();
        stdin.read_line(&mut line).await.unwrap();
        assert_eq!(line, to_line(&Command::Drain {}).unwrap());
        // A draining proxy sends records until its end.
        send(&proxy, &warning("late"));
        drop(proxy);
        ended(&mut handle).await;
        assert_eq!(stdin.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        assert_eq!(log(dir.path()), changed + "WARNING late\n");
    }

    #[tokio::test]
    async fn proxy_is_notified_repeatedly_that_its_records_are_read() {
        let (channel, mut stdin, _proxy) = channel();
        let _handle = channel.run(None);
        let began = Instant::now();
        for _ in 0..2 {
            let mut line = String::new();
            stdin.read_line(&mut line).await.unwrap();
            assert_eq!(line, to_line(&Command::Alive {}).unwrap());
        }
        assert!(began.elapsed() >= 2 * BEAT);
    }

    #[tokio::test]
    async fn early_end_or_invalid_output_of_the_proxy_is_a_warning_in_the_log() {
        let failed = to_line(&ProxyMessage::Failed { reason: "no more sockets".to_owned() }).unwrap();
        for (output, expected) in [
            ("", "it closed its output"),
            (&*failed, "no more sockets"),
            ("nonsense\n", "an invalid message"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (channel, mut stdin, proxy) = channel();
            let mut handle = channel.run(Some(LogSink::open(dir.path()).unwrap()));
            send(&proxy, &format!("{}{output}", warning("before")));
            drop(proxy);
            let reason = ended(&mut handle).await;
            assert!(reason.contains(expected), "{reason}");
            let log = log(dir.path());
            assert!(log.starts_with("WARNING before\n"), "{log}");
            let last = log.lines().last().unwrap();
            assert!(
                last.starts_with("WARNING the egress proxy ended while the task ran: ")
                    && last.contains(expected),
                "{log}"
            );
            assert_eq!(stdin.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn egress_without_a_writable_log_ends() {
        let dir = tempfile::tempdir().unwrap();
        let (channel, mut stdin, proxy) = channel();
        let mut handle = channel.run(Some(LogSink::open(dir.path()).unwrap()));
        fill(&dir.path().join("network-sandbox.log"));
        send(&proxy, &warning("x"));
        let reason = ended(&mut handle).await;
        assert!(reason.contains("failed to store its records"), "{reason}");
        assert_eq!(stdin.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }
}
