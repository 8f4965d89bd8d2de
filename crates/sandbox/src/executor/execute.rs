//! The executor: commands, files, and its end.

use std::path::Path;
use std::sync::Arc;

use sandbox_inside::{End, Request};
use tokio::sync::Mutex;

use crate::container::ContainerError;
use crate::context::Shared;
use crate::error::{ExecutorError, SandboxError};
use crate::program::unreadable;
use crate::spec::{InvalidSpec, Mount};
use crate::task::resolver;
use sandbox_workspace::{Findings, GitChanges};

use super::command::request;
use super::router::CommandState;
use super::session::{Ran, Session, Work};
use super::teardown::Teardown;
use super::{ExecCommand, ExecOptions, ExecResult, ExecutorConfig, ExecutorMode};

/// Runs untrusted commands, in one container or one for each.
/// [`Sandbox::create_executor`](crate::Sandbox::create_executor) makes one.
///
/// A command ends with everything that it started, whatever session or process group that is in:
/// when its main process ends, when its time is over, when its future is dropped, and when this
/// process dies. An executor that is dropped leaves nothing that runs; what was tampered with is
/// moved away in the background then, and reported in the log only.
///
/// ```no_run
/// use sandbox::{ImageSource, Sandbox};
/// use sandbox::executor::{ExecOptions, ExecutorConfig, Workspace};
///
/// # async fn example(sandbox: Sandbox) -> Result<(), Box<dyn std::error::Error>> {
/// let image = sandbox.ensure_image(&ImageSource::existing("localhost/tools:latest")).await?;
/// let config = ExecutorConfig::new("chat-7", image).workspace(Workspace::ReadWrite("/srv/chat-7".into()));
/// let executor = sandbox.create_executor(config)?;
///
/// let result = executor.execute("python3 build.py | tail -5", ExecOptions::default()).await?;
/// if result.timed_out {
///     println!("it took too long; so far it said: {}", result.stdout_text());
/// }
/// executor.write_file("/tmp/question.txt", "why?").await?;
/// let answer = executor.execute(["cat", "/tmp/question.txt"], ExecOptions::default()).await?;
/// assert_eq!(answer.stdout, b"why?");
/// executor.cleanup().await?;
/// # Ok(())
/// # }
/// ```
///
#[doc = include_str!("guide.md")]
#[derive(Debug)]
pub struct Executor {
    config: ExecutorConfig,
    /// `None` where a launcher has its own.
    supervisor: Option<Mount>,
    teardown: Arc<Teardown>,
    /// The container of [`ExecutorMode::Reuse`]. Held while one is made: a command that comes
    /// meanwhile waits for it rather than make another.
    session: Mutex<Option<Arc<Session>>>,
}

impl Executor {
    pub(crate) fn new(shared: Arc<Shared>, config: ExecutorConfig) -> Result<Self, SandboxError> {
        let config = config.resolved(&resolver(shared.state_dir(), [])?)?;
        let supervisor = match shared.launcher() {
            Some(_) => None,
            None => Some(unreadable(shared.config(), config.launch.isolation.runtime)?),
        };
        Ok(Self { config, supervisor, teardown: Arc::new(Teardown::new(shared)), session: Mutex::new(None) })
    }

    /// Runs a command and waits for its end. Many can run at once: each needs one process for its
    /// supervision in addition to its own, out of
    /// [`ResourceLimits::pids`](crate::ResourceLimits::pids), and four open files of the
    /// container's first process. One that finds no room is an error, and disturbs no other.
    ///
    /// # Errors
    ///
    /// When the infrastructure fails, the program is not in the image, or the container ends first.
    /// A command that fails, or whose time is over or that exceeds a limit, is a result. A limit of
    /// `options` that is above the container's is [`SandboxError::Spec`].
    pub async fn execute(
        &self,
        command: impl Into<ExecCommand>,
        options: ExecOptions,
    ) -> Result<ExecResult, SandboxError> {
        let request = request(command.into(), &options, &self.config.launch)?;
        let has_input = request.has_input();
        let work = Work {
            request,
            input: has_input.then(|| options.stdin.into_reader()),
            timeout: options.timeout.or(self.config.launch.limits.timeout),
            output_limit: self.config.output_limit,
        };
        let result = Box::pin(self.perform(work)).await?;
        let Findings { tampered, git, .. } = self.teardown.take_findings();
        Ok(ExecResult { tampered, git, ..result })
    }

    /// Writes `content` to the file at the absolute `path` of the container, as a command would:
    /// with its rights, and along the container's own symbolic links. Folders above it are made.
    ///
    /// # Errors
    ///
    /// When the infrastructure fails, the file cannot be written, or, with [`ExecutorMode::Fresh`],
    /// when no other command would see it: only what lies in a writable workspace lasts there.
    pub async fn write_file(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<(), SandboxError> {
        absolute(path)?;
        if !self.config.lasts(path) {
            return Err(InvalidSpec::new(
                "path",
                format!(
                    "`{}` would go with its container; write below /workspace, or reuse the container",
                    path.escape_debug()
                ),
            )
            .into());
        }
        let request = Request::Write { path: path.to_owned() };
        let input = Box::new(std::io::Cursor::new(content.into()));
        self.file(Work {
            request,
            input: Some(input),
            timeout: self.config.launch.limits.timeout,
            output_limit: 0,
        })
        .await
        .map(drop)
    }

    /// The content of the file at the absolute `path` of the container, of at most `limit` bytes,
    /// read as a command would: with its rights, and along the container's own symbolic links.
    ///
    /// # Errors
    ///
    /// When the infrastructure fails, or the file cannot be read or is larger.
    pub async fn read_file(&self, path: &str, limit: usize) -> Result<Vec<u8>, SandboxError> {
        absolute(path)?;
        let request = Request::Read { path: path.to_owned(), limit: limit as u64 };
        let result = self
            .file(Work {
                request,
                input: None,
                timeout: self.config.launch.limits.timeout,
                // Either end of what is kept has half of it.
                output_limit: limit.saturating_mul(2),
            })
            .await?;
        Ok(result.stdout)
    }

    /// Ends and removes the container, with whatever runs in it. Nothing happens when there is
    /// none; the next command makes a new one.
    ///
    /// Returns what no [`ExecResult`] reported: the tampered paths of [protected](Mount::protected)
    /// mounts, which were moved away, and what came of what commands did in repositories of those.
    ///
    /// # Errors
    ///
    /// When the container cannot be removed. A sweep removes it later; until then its mounts count
    /// as in use, and tampered paths in them are where it was. To call this once more is to try it
    /// once more.
    pub async fn cleanup(&self) -> Result<Findings, SandboxError> {
        // Held to the end: a command that comes meanwhile gets its container when the mounts of the
        // last one are free.
        let mut current = self.session.lock().await;
        let closed = match current.take() {
            Some(session) => session.close().await,
            None => Ok(()),
        };
        closed.and(self.teardown.finish().await)?;
        Ok(self.teardown.take_findings())
    }

    /// A file is there whole, or it is an error.
    async fn file(&self, work: Work) -> Result<ExecResult, SandboxError> {
        let result = Box::pin(self.perform(work)).await?;
        if result.is_success() {
            return Ok(result);
        }
        let problem = if result.timed_out {
            "the file was not read or written within the time limit"
        } else {
            "the process that read or wrote the file was killed"
        };
        let problem = problem.to_owned();
        Err(ExecutorError::Failed { problem }.into())
    }

    async fn perform(&self, work: Work) -> Result<ExecResult, SandboxError> {
        let session = match self.config.mode {
            ExecutorMode::Reuse => self.reused().await?,
            ExecutorMode::Fresh => Arc::new(self.open().await?),
        };
        let ran = session.run(work).await;
        if self.config.mode == ExecutorMode::Fresh && self.config.is_guarded() {
            session.close().await?;
        }
        result(&session, ran?)
        // A fresh session is dropped here, and its container removed in the background.
    }

    async fn open(&self) -> Result<Session, SandboxError> {
        Session::open(&self.teardown, &self.config.launch, self.supervisor.as_ref())
            .await
            .map_err(SandboxError::or_engine_not_running)
    }

    async fn reused(&self) -> Result<Arc<Session>, SandboxError> {
        let mut current = self.session.lock().await;
        if let Some(session) = current.as_ref().filter(|session| session.is_alive()) {
            return Ok(Arc::clone(session));
        }
        // One that ended is removed before there is another.
        if let Some(ended) = current.take() {
            ended.close().await?;
        }
        self.teardown.settled().await;
        let session = Arc::new(self.open().await?);
        *current = Some(Arc::clone(&session));
        Ok(session)
    }
}

fn result(session: &Session, ran: Ran) -> Result<ExecResult, SandboxError> {
    let mut exceeded = None;
    let exit_code = match ran.state {
        // What it wrote until then is worth more than how it was ended.
        _ if ran.timed_out => ExecResult::TIMED_OUT,
        CommandState::Ended(End::Exited(code)) => code,
        CommandState::Ended(End::Exceeded(limit)) => {
            exceeded = Some(limit);
            ExecResult::KILLED
        }
        CommandState::Ended(End::NotFound { program }) => {
            return Err(ContainerError::ProgramNotFound { program }.into());
        }
        CommandState::Ended(End::NotExecutable { program }) => {
            return Err(ContainerError::ProgramNotExecutable { program }.into());
        }
        CommandState::Ended(End::Failed { problem }) => return Err(ExecutorError::Failed { problem }.into()),
        CommandState::Lost | CommandState::Running => return Err(session.lost().into()),
    };
    let ((stdout, stdout_cut), (stderr, stderr_cut)) = (ran.stdout, ran.stderr);
    Ok(ExecResult {
        exit_code,
        stdout,
        stderr,
        stdout_cut,
        stderr_cut,
        timed_out: ran.timed_out,
        exceeded,
        duration: ran.duration,
        tampered: Vec::new(),
        git: GitChanges::default(),
    })
}

fn absolute(path: &str) -> Result<(), InvalidSpec> {
    let is_plain = Path::new(path).is_absolute()
        && !path.contains('\0')
        && path.len() <= 4096
        && path.split('/').all(|part| part != "..");
    if is_plain {
        return Ok(());
    }
    Err(InvalidSpec::new(
        "path",
        format!("`{}` is not an absolute path in the container; write it without `..`", path.escape_debug()),
    ))
}
