//! The proxy as a process, driven over its stdio as the sandbox drives it.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use allowlist::Allowlist;
use anyhow::{Context, Result, bail};
use sandbox::credentials::SecretReplacements;
use sandbox_proxy_protocol::{
    Command, Event, Limits, Listen, PROTOCOL_VERSION, ProxyMessage, Record, StartConfig, Upstream, Verdict,
    from_line, to_line,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc;

use super::authority::Authorities;

/// The host that all requests are for.
pub(crate) const HOST: &str = "origin.bench";
/// The number of hosts that the policy permits.
const RULES: u32 = 50;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The parts of a start document.
pub(crate) struct Plan<'a> {
    pub(crate) program: &'a Path,
    pub(crate) listen: Ipv4Addr,
    pub(crate) origin: Ipv4Addr,
    pub(crate) origin_roots_pem: &'a str,
    pub(crate) authorities: &'a Authorities,
    pub(crate) replacements: SecretReplacements,
    /// Ask about each request, since no rule permits any.
    pub(crate) asks: bool,
}

impl Plan<'_> {
    fn start_line(&self) -> Result<String> {
        // The rules of a project with a few dozen hosts; the one that permits a request is the last.
        let others = (1..RULES).map(|number| format!("registry-{number}.example.com, "));
        let policy = if self.asks {
            String::new()
        } else {
            format!("domains: [{}{HOST}]", others.collect::<String>())
        };
        let config = StartConfig {
            protocol: PROTOCOL_VERSION,
            policy: Allowlist::from_yaml(&policy, "bench.yaml").context("failed to read the policy")?,
            replacements: sandbox_proxy_protocol::ReplacementMap(self.replacements.clone()),
            authority: self.authorities.intermediate()?,
            listen: Listen::new(self.listen),
            upstream: Upstream {
                dns: (self.origin, 53).into(),
                extra_roots_pem: self.origin_roots_pem.to_owned(),
                allow_addresses: vec![std::net::IpAddr::from(self.origin).into()],
                host_addresses: Vec::new(),
            },
            services: Vec::new(),
            // A load of minutes exceeds the limits of a single task.
            limits: Limits {
                log_bytes: u64::MAX,
                question_timeout_ms: self.asks.then_some(60_000),
                questions_per_minute: u32::MAX,
                ..Limits::default()
            },
        };
        to_line(&config).context("failed to write the start document")
    }
}

/// A running proxy.
pub(crate) struct Proxy {
    child: Child,
    stdin: ChildStdin,
    /// The numbers of its questions.
    questions: mpsc::UnboundedReceiver<u64>,
    /// Time from the spawn to the ready message.
    pub(crate) start: Duration,
}

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

impl Proxy {
    /// Starts the proxy and waits until it serves. Its records are read, as the sandbox
    /// reads them.
    #[expect(clippy::disallowed_methods, reason = "the proxy itself is measured, outside any container")]
    pub(crate) async fn start(plan: &Plan<'_>) -> Result<Self> {
        let line = plan.start_line()?;
        let mut command = std::process::Command::new(plan.program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut command = tokio::process::Command::from(command);
        let begin = Instant::now();
        let mut child = command.kill_on_drop(true).spawn().context("failed to start the proxy")?;
        let mut stdin = child.stdin.take().context("the proxy has no stdin")?;
        let mut stdout = BufReader::new(child.stdout.take().context("the proxy has no stdout")?);
        stdin.write_all(line.as_bytes()).await.context("failed to write to the proxy")?;
        let mut answer = Vec::new();
        tokio::time::timeout(TIMEOUT, stdout.read_until(b'\n', &mut answer))
            .await
            .context("the proxy did not become ready")?
            .context("failed to read from the proxy")?;
        let start = begin.elapsed();
        match from_line(&answer).context("failed to read the first message of the proxy")? {
            ProxyMessage::Ready { .. } => {}
            other => bail!("the proxy did not become ready: {other:?}"),
        }
        let (asked, questions) = mpsc::unbounded_channel();
        tokio::spawn(read_records(stdout, asked));
        Ok(Self { child, stdin, questions, start })
    }

    /// Its next question.
    pub(crate) async fn question(&mut self) -> Result<u64> {
        self.questions.recv().await.context("the proxy ended without a question")
    }

    /// Permits the request of `question`.
    pub(crate) async fn permit_once(&mut self, question: u64) -> Result<()> {
        let answer =
            Command::Answer { question, verdict: Verdict::Once, by: "bench".to_owned(), policy: None };
        let line = to_line(&answer).context("failed to write an answer")?;
        self.stdin.write_all(line.as_bytes()).await.context("failed to write to the proxy")
    }

    /// Its current and its peak memory.
    pub(crate) fn memory(&self) -> Result<Memory> {
        let id = self.child.id().context("the proxy has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))
            .context("failed to read the proxy's status")?;
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let (resident, peak) = (field("VmRSS:"), field("VmHWM:"));
        Ok(Memory { resident: resident.context("no VmRSS")?, peak: peak.context("no VmHWM")? })
    }

    /// Seconds of processor time that it used.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        benchmarks::process_seconds(self.child.id().context("the proxy has ended")?)
    }

    /// Ends it as the sandbox does, by closing its stdin.
    pub(crate) async fn stop(mut self) -> Result<()> {
        drop(self.stdin);
        let status = tokio::time::timeout(TIMEOUT, self.child.wait())
            .await
            .context("the proxy did not end with its stdin")?
            .context("failed to wait for the proxy")?;
        if !status.success() {
            bail!("the proxy ended with {status}");
        }
        Ok(())
    }
}

/// Sends the number of each question.
async fn read_records(mut stdout: BufReader<ChildStdout>, asked: mpsc::UnboundedSender<u64>) -> Result<()> {
    let mut line = Vec::new();
    while stdout.read_until(b'\n', &mut line).await? > 0 {
        if let ProxyMessage::Record(Record { event: Event::Asked { question, .. }, .. }) = from_line(&line)? {
            asked.send(question)?;
        }
        line.clear();
    }
    Ok(())
}
