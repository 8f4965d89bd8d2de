//! The proxy's side of the control channel: it reads its owner's messages line by line.
//!
//! A line that is not understood ends the proxy: otherwise an owner could wrongly believe that it
//! has closed off access.

use std::time::Duration;

use sandbox_proxy_protocol::{
    Command, Event, LineError, PROTOCOL_VERSION, PolicyChange, ProxyMessage, StartConfig, from_line,
};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use zeroize::Zeroizing;

use crate::accounting::Spending;
use crate::policy::{LivePolicy, Questions};
use crate::record::Recorder;

/// The longest line that is read, newline included.
const LINE_BYTES: usize = 16 * 1024 * 1024;

/// The owner's input is not usable. No message quotes it, because it may contain a key.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The channel broke.
    #[error("failed to read from the control channel")]
    Read(#[from] std::io::Error),
    /// A line is too long.
    #[error("a line on the control channel is longer than {LINE_BYTES} bytes")]
    TooLong,
    /// The owner closed the channel before it sent a start document.
    #[error("the control channel ended before the start document")]
    NoStart,
    /// The owner uses another protocol version.
    #[error("the start document has protocol version {theirs}, this proxy has {PROTOCOL_VERSION}")]
    Version {
        /// The document's version.
        theirs: u32,
    },
    /// The first line is not a start document.
    #[error("failed to read the start document{0}")]
    Start(Column),
    /// A later line is not a command.
    #[error("failed to read a command{0}")]
    Command(Column),
}

/// The column where parsing a line failed, for an error message; displays as nothing if it is
/// unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column(usize);

impl Column {
    fn from_error(error: &LineError) -> Self {
        Self(error.column())
    }
}

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, " at column {}", self.0) }
    }
}

/// How the owner's lines ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// Requests in progress may end.
    Drain,
    /// The owner is gone.
    Gone,
}

/// The lines from the owner.
pub(crate) struct Control<R> {
    input: BufReader<R>,
}

impl<R: AsyncRead + Unpin> Control<R> {
    /// Reads from `input`.
    pub(crate) fn new(input: R) -> Self {
        Self { input: BufReader::new(input) }
    }

    /// The first line.
    pub(crate) async fn start(&mut self) -> Result<StartConfig, ControlError> {
        /// The one key that every version has.
        #[derive(Deserialize)]
        struct Version {
            protocol: u32,
        }

        let line = self.line().await?.ok_or(ControlError::NoStart)?;
        let failed = |error: LineError| ControlError::Start(Column::from_error(&error));
        let theirs = from_line::<Version>(&line).map_err(failed)?.protocol;
        if theirs != PROTOCOL_VERSION {
            return Err(ControlError::Version { theirs });
        }
        from_line(&line).map_err(failed)
    }

    /// Follows the commands of the following lines until the lines end or one asks for a drain, and
    /// records every change of the policy. If no line arrives for longer than `silence`, the task
    /// is cut off until the next one.
    pub(crate) async fn follow(
        &mut self,
        policy: &watch::Sender<LivePolicy>,
        silence: Option<Duration>,
        spending: &Spending,
        questions: &Questions,
        recorder: &Recorder,
    ) -> Result<Farewell, ControlError> {
        loop {
            let line = {
                let mut silent_at = silence.and_then(|silence| Instant::now().checked_add(silence));
                let mut line = std::pin::pin!(self.line());
                loop {
                    let down_end = policy.borrow().down_end();
                    tokio::select! {
                        // The owner's line takes precedence over the end of a time that it may just
                        // have replaced.
                        biased;
                        line = &mut line => break line?,
                        () = at(down_end) => change(policy, recorder, PolicyChange::Expired, LivePolicy::raise).await,
                        () = at(silent_at) => {
                            tracing::warn!(?silence, "the sandbox is silent: every request is refused until it speaks");
                            policy.send_modify(LivePolicy::neglect);
                            silent_at = None;
                        }
                    }
                }
            };
            let Some(line) = line else {
                return Ok(Farewell::Gone);
            };
            policy.send_if_modified(|live| std::mem::take(&mut live.unattended));
            match from_line(&line).map_err(|error| ControlError::Command(Column::from_error(&error)))? {
                Command::SetPolicy { policy: next } => {
                    let set = |live: &mut LivePolicy| live.allowlist = next.into();
                    change(policy, recorder, PolicyChange::Set, set).await;
                }
                Command::SetReplacements { replacements } => {
                    change(policy, recorder, PolicyChange::Credentials, |live| live.renew(&replacements))
                        .await;
                }
                Command::Down { for_ms } => {
                    change(policy, recorder, PolicyChange::Down, |live| live.lower(for_ms)).await;
                }
                Command::Up {} => change(policy, recorder, PolicyChange::Up, LivePolicy::raise).await,
                Command::Quarantine {} => {
                    change(policy, recorder, PolicyChange::Quarantine, LivePolicy::quarantine).await;
                }
                Command::Answer { question, verdict, by, policy: None } => {
                    questions.answer(question, verdict, by, || {});
                }
                Command::Answer { question, verdict, by, policy: Some(next) } => {
                    let set = |live: &mut LivePolicy| live.allowlist = next.into();
                    questions.answer(question, verdict, by, || policy.send_modify(set));
                    change(policy, recorder, PolicyChange::Set, |_| {}).await;
                }
                Command::Report {} => report(spending, recorder).await,
                Command::Alive {} => {}
                Command::Drain {} => return Ok(Farewell::Drain),
            }
        }
    }

    /// Waits until the owner's lines end, and ignores their content.
    pub(crate) async fn ended(&mut self) {
        while let Ok(Some(_)) = self.line().await {}
    }

    /// The next line with its newline; `None` at the end. A last line without a newline was cut off
    /// and does not count.
    async fn line(&mut self) -> Result<Option<Zeroizing<Vec<u8>>>, ControlError> {
        let mut line = Zeroizing::new(Vec::new());
        loop {
            let read = self.input.fill_buf().await?;
            let end = read.iter().position(|byte| *byte == b'\n');
            let piece = end.and_then(|at| read.get(..=at)).unwrap_or(read);
            if piece.is_empty() {
                return Ok(None);
            }
            if line.len().saturating_add(piece.len()) > LINE_BYTES {
                return Err(ControlError::TooLong);
            }
            append(&mut line, piece);
            let taken = piece.len();
            self.input.consume(taken);
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }
}

/// Appends without leaving a copy behind: a vector that grows by itself does not erase its old
/// memory.
fn append(line: &mut Zeroizing<Vec<u8>>, piece: &[u8]) {
    let length = line.len().saturating_add(piece.len());
    if length > line.capacity() {
        let mut larger = Zeroizing::new(Vec::with_capacity(length.saturating_mul(2)));
        larger.extend_from_slice(line);
        *line = larger;
    }
    line.extend_from_slice(piece);
}

/// Applies `work` and then records it: a reader of the record knows that no later request is judged
/// by the earlier policy.
///
/// Waits if the owner does not read its records. Requests are refused meanwhile, because there is
/// no room for their records either.
async fn change(
    policy: &watch::Sender<LivePolicy>,
    recorder: &Recorder,
    change: PolicyChange,
    work: impl FnOnce(&mut LivePolicy),
) {
    policy.send_modify(work);
    let event = policy.borrow().event(change);
    tracing::info!(?event, "the policy was changed");
    recorder.record(event).await;
}

/// Reports the traffic so far.
async fn report(spending: &Spending, recorder: &Recorder) {
    let traffic = spending.traffic();
    if spending.is_bounded() {
        recorder.record(Event::Traffic(traffic)).await;
    }
    recorder.send_in_turn(ProxyMessage::Traffic(traffic)).await;
}

/// Returns at `time`; never returns without one.
async fn at(time: Option<Instant>) {
    match time {
        // tidy: sleep: the end of a time that the owner chose
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use allowlist::Allowlist;
    use sandbox_proxy_protocol::{Event, PolicyState, ProxyMessage, Record};
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::record;

    /// Follows `input` until it ends.
    async fn follow(
        input: impl AsyncRead + Unpin,
        policy: &watch::Sender<LivePolicy>,
        silence: Option<Duration>,
        recorder: &Recorder,
    ) -> Result<Farewell, ControlError> {
        let spending = Spending::new(policy.subscribe());
        let questions = Questions::new(&sandbox_proxy_protocol::Limits::default(), recorder.clone());
        Control::new(input).follow(policy, silence, &spending, &questions, recorder).await
    }

    const SECRET: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEH";

    fn start_document(protocol: u32, extra: &str) -> String {
        format!(
            r#"{{"protocol":{protocol},"policy":{{}},"authority":{{"certificate_pem":"c","private_key_pem":"{SECRET}"}},"listen":{{"address":"127.0.0.1","http_port":1,"https_port":2,"dns_port":3}},"upstream":{{"dns":"127.0.0.1:53"}}{extra}}}"#
        ) + "\n"
    }

    #[tokio::test]
    async fn start_document_is_read() {
        let config = Control::new(start_document(PROTOCOL_VERSION, "").as_bytes()).start().await.unwrap();
        assert_eq!(config.limits, sandbox_proxy_protocol::Limits::default());
        assert_eq!(config.authority.private_key_pem.expose(), SECRET);
        assert!(!format!("{config:?}").contains(SECRET));
    }

    #[tokio::test]
    async fn unusable_start_document_is_reported_without_its_text() {
        let good = start_document(PROTOCOL_VERSION, "");
        let cases = [
            (String::new(), "ended before"),
            (good.trim_end().to_owned(), "ended before"),
            ("\n".to_owned(), "failed to read the start document"),
            (format!("\"{SECRET}\"\n"), "failed to read the start document at column"),
            (good.replace("certificate_pem", SECRET), "failed to read the start document at column"),
            (
                good.replace("\"c\"", &format!("[\"{SECRET}\"]")),
                "failed to read the start document at column",
            ),
            (
                start_document(PROTOCOL_VERSION, ",\"unknown\":1"),
                "failed to read the start document at column",
            ),
            // A later version may have other keys, so the version is checked first.
            (start_document(99, ",\"unknown\":1"), "protocol version 99, this proxy has"),
        ];
        for (input, expected) in cases {
            let error = Control::new(input.as_bytes()).start().await.unwrap_err();
            assert!(error.to_string().contains(expected), "{input}: {error}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(SECRET), "{shown}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_owner_cuts_off_the_task_until_its_next_line() {
        let (sender, mut receiver) = watch::channel(LivePolicy::new(Allowlist::default()));
        let (mut owner, input) = tokio::io::duplex(64);
        let following = tokio::spawn(async move {
            follow(input, &sender, Some(Duration::from_secs(10)), &record::channel().0).await
        });
        let began = tokio::time::Instant::now();
        // Half a line is not a sign of life, but is not lost.
        owner.write_all(b"{\"command\":").await.unwrap();
        receiver.wait_for(|policy| policy.unattended).await.unwrap();
        assert!(began.elapsed() >= Duration::from_secs(10));
        owner.write_all(b"\"alive\"}\n").await.unwrap();
        receiver.wait_for(|policy| !policy.unattended).await.unwrap();
        assert_eq!(receiver.borrow().cuts, 1);
        owner.write_all(b"{\"command\":\"drain\"}\n").await.unwrap();
        assert_eq!(following.await.unwrap().unwrap(), Farewell::Drain);
    }

    #[tokio::test]
    async fn endless_line_is_refused() {
        let endless = tokio::io::repeat(b' ');
        assert!(matches!(Control::new(endless).start().await, Err(ControlError::TooLong)));
    }

    #[tokio::test]
    async fn lines_of_any_length_are_read_whole() {
        for length in [0, 1, 8191, 8192, 8193, 100_000, LINE_BYTES - 1] {
            let text = "x".repeat(length) + "\n";
            let input = text.clone() + "next\ncut off";
            let mut control = Control::new(input.as_bytes());
            assert_eq!(control.line().await.unwrap().unwrap().as_slice(), text.as_bytes());
            assert_eq!(control.line().await.unwrap().unwrap().as_slice(), b"next\n");
            assert!(control.line().await.unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn commands_change_the_policy_at_once() {
        let (sender, receiver) = watch::channel(LivePolicy::new(Allowlist::default()));
        let before = receiver.borrow().allowlist.clone();
        let lines = "{\"command\":\"set_policy\",\"policy\":{\"domains\":[\"a.example\"]}}\n";
        follow(lines.as_bytes(), &sender, None, &record::channel().0).await.unwrap();
        assert_ne!(*receiver.borrow().allowlist, *before);
        assert!(!receiver.borrow().quarantined);

        // A quarantine outlives a new policy. A line that is cut off at the end is not followed.
        let lines = "{\"command\":\"quarantine\"}\n{\"command\":\"set_policy\",\"policy\":{}}\n{\"comm";
        follow(lines.as_bytes(), &sender, None, &record::channel().0).await.unwrap();
        assert_eq!(*receiver.borrow().allowlist, *before);
        assert!(receiver.borrow().quarantined);
    }

    #[tokio::test]
    async fn unknown_command_ends_the_proxy() {
        for line in [
            "\n",
            "{}\n",
            "{\"command\":\"open_everything\"}\n",
            "{\"command\":\"set_policy\",\"policy\":{\"domain\":[]}}\n",
            "{\"command\":\"set_replacements\",\"replacements\":{\"a\":{\"value\":\"hunter2\"}}}\n",
        ] {
            let (sender, _receiver) = watch::channel(LivePolicy::new(Allowlist::default()));
            let followed = follow(line.as_bytes(), &sender, None, &record::channel().0).await;
            assert!(matches!(followed, Err(ControlError::Command(_))), "{line}");
            assert!(!format!("{followed:?}").contains("hunter2"), "{followed:?}");
        }
    }

    /// The recorded changes in order: change, state, and whether there is an end.
    fn recorded(output: &[u8]) -> Vec<(PolicyChange, PolicyState, bool)> {
        let lines = output.split_inclusive(|byte| *byte == b'\n');
        lines
            .map(|line| match from_line(line).unwrap() {
                ProxyMessage::Record(Record { event: Event::Policy { change, state, until_ms }, .. }) => {
                    (change, state, until_ms.is_some())
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn every_change_is_recorded_and_down_expires_by_itself() {
        let (sender, mut receiver) = watch::channel(LivePolicy::new(Allowlist::default()));
        let (mut owner, input) = tokio::io::duplex(1024);
        let (recorder, records) = record::channel();
        let following = tokio::spawn(async move { follow(input, &sender, None, &recorder).await });
        let began = Instant::now();
        owner.write_all(b"{\"command\":\"down\",\"for_ms\":600000}\n").await.unwrap();
        receiver.wait_for(LivePolicy::is_down).await.unwrap();
        // A new time replaces the last one, a new policy does not affect it, and half a line does
        // not delay it.
        tokio::time::advance(Duration::from_secs(500)).await;
        owner.write_all(b"{\"command\":\"down\",\"for_ms\":300000}\n").await.unwrap();
        owner
            .write_all(b"{\"command\":\"set_policy\",\"policy\":{\"domains\":[\"a.example\"]}}\n{\"comm")
            .await
            .unwrap();
        receiver.wait_for(|policy| !policy.allowlist.is_empty()).await.unwrap();
        assert!(receiver.borrow().is_down());
        receiver.wait_for(|policy| policy.down_end().is_none()).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 800);
        owner.write_all(b"and\":\"down\",\"for_ms\":18446744073709551615}\n").await.unwrap();
        receiver.wait_for(LivePolicy::is_down).await.unwrap();
        let longest = receiver.borrow().down_end().unwrap() - Instant::now();
        assert_eq!(longest.as_secs(), 24 * 60 * 60, "no longer than a day");
        owner.write_all(b"{\"command\":\"up\"}\n{\"command\":\"quarantine\"}\n").await.unwrap();
        owner.write_all(b"{\"command\":\"down\",\"for_ms\":1000}\n").await.unwrap();
        drop(owner);
        assert_eq!(following.await.unwrap().unwrap(), Farewell::Gone);
        let mut output = Vec::new();
        records.write_to(&mut output).await.unwrap();
        assert_eq!(
            recorded(&output),
            [
                (PolicyChange::Down, PolicyState::Down, true),
                (PolicyChange::Down, PolicyState::Down, true),
                (PolicyChange::Set, PolicyState::Down, true),
                (PolicyChange::Expired, PolicyState::Up, false),
                (PolicyChange::Down, PolicyState::Down, true),
                (PolicyChange::Up, PolicyState::Up, false),
                (PolicyChange::Quarantine, PolicyState::Quarantine, false),
                (PolicyChange::Down, PolicyState::Quarantine, false),
            ]
        );
    }
}
