//! The executor: commands, files, and cleanup.

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

/// Runs untrusted commands, in one container or one for each. Created by
/// [`Sandbox::create_executor`](crate::Sandbox::create_executor).
///
/// A command ends with all processes that it started, in any session or process group: when its
/// main process ends, on its timeout, when its future is dropped, and when this process dies. A
/// dropped executor leaves nothing running; tampered files are then moved away in the background,
/// and reported in the log only.
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
///     println!("timed out; its output so far: {}", result.stdout_text());
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
    /// `None` if a launcher provides its own.
    supervisor: Option<Mount>,
    teardown: Arc<Teardown>,
    /// The container of [`ExecutorMode::Reuse`]. Locked while one is created: concurrent commands
    /// wait for it instead of creating another.
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

    /// Runs a command and waits for its end. Many can run concurrently: each needs one process for
    /// its supervision in addition to its own, out of
    /// [`ResourceLimits::pids`](crate::ResourceLimits::pids), and four open files of the
    /// container's first process. A command for which there is no room fails, without affecting
    /// others.
    ///
    /// # Errors
    ///
    /// When the infrastructure fails, the program is not in the image, or the container ends first.
    /// A command that fails, times out or exceeds a limit is a result. A limit of `options` above
    /// the container's is [`SandboxError::Spec`].
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

    /// Writes `content` to the file at the absolute `path` of the container, like a command: with
    /// its permissions, following the container's own symbolic links. Missing parent folders are
    /// created.
    ///
    /// # Errors
    ///
    /// When the infrastructure fails, when the file cannot be written, or, with
    /// [`ExecutorMode::Fresh`], when no other command would see it: only files in a writable
    /// workspace persist there.
    pub async fn write_file(&self, path: &str, content: impl Into<Vec<u8>>) -> Result<(), SandboxError> {
        absolute(path)?;
        if !self.config.lasts(path) {
            return Err(InvalidSpec::new(
                "path",
                format!(
                    "`{}` would be removed with its container; write below /workspace, or reuse the container",
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

    /// The content of the file at the absolute `path` of the container, of at most `limit` bytes.
    /// It is read like by a command: with its permissions, following the container's own symbolic
    /// links.
    ///
    /// # Errors
    ///
    /// When the infrastructure fails, or the file cannot be read or is larger than `limit`.
    pub async fn read_file(&self, path: &str, limit: usize) -> Result<Vec<u8>, SandboxError> {
        absolute(path)?;
        let request = Request::Read { path: path.to_owned(), limit: limit as u64 };
        let result = self
            .file(Work {
                request,
                input: None,
                timeout: self.config.launch.limits.timeout,
                // The capture keeps half of its limit at each end.
                output_limit: limit.saturating_mul(2),
            })
            .await?;
        Ok(result.stdout)
    }

    /// Ends and removes the container, with everything that runs in it. Without a container it does
    /// nothing. The next command creates a new one.
    ///
    /// Returns the findings that no [`ExecResult`] reported: the tampered paths of
    /// [protected](Mount::protected) mounts, which were moved away, and the changes to their
    /// repositories.
    ///
    /// # Errors
    ///
    /// When the container cannot be removed. A later sweep removes it; until then its mounts count
    /// as in use, and tampered paths stay in them. Call this again to retry.
    pub async fn cleanup(&self) -> Result<Findings, SandboxError> {
        // Locked to the end: a concurrent command gets its container when the mounts of the last
        // one are free.
        let mut current = self.session.lock().await;
        let closed = match current.take() {
            Some(session) => session.close().await,
            None => Ok(()),
        };
        closed.and(self.teardown.finish().await)?;
        Ok(self.teardown.take_findings())
    }

    /// A file operation is complete, or an error.
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
        // An ended session is removed before another is created.
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
        // Its output until then is worth more than an error.
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
