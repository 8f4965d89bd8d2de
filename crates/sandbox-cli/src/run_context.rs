//! Everything around one execution: engine, image, proxy, network log, signals, and cleanup.
//!
//! A command opens a context with its settings, executes in it, and closes it with the result.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::image::ImageRequest;
use sandbox::{ImageTag, Network, Sandbox, SandboxError, TerminalSize};
use tokio::sync::Notify;

use crate::config::PolicySource;
use crate::control::{Activity, ControlSocket, Controlled, Report};
use crate::credentials::Renewal;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::git_report::report_recovered_at_start;
use crate::interrupt::Interrupts;
use crate::network_log::LogTap;
use crate::owner::{Owner, RequestedSize};
use crate::printer::Printer;
use crate::removal;
use crate::run_folder::{OUTPUT, RunFolder};
use crate::run_record::{RunRecord, now_ms};
use crate::settings::TaskSettings;
use crate::telemetry::Export;
use crate::workspace_copy::{CopyOfRun, Pending, WorkspaceReport};

/// The maximum number of attempts to resize, and the time between two.
const RESIZES: u32 = 5;
const BETWEEN_RESIZES: Duration = Duration::from_millis(200);

/// The context of one execution. Its opener must always close it, so that nothing is left on the
/// engine. `I` is the image: `()` until there is one.
#[derive(Debug)]
pub(crate) struct RunContext<'a, I = ImageTag> {
    pub(crate) settings: &'a TaskSettings,
    pub(crate) printer: Printer,
    pub(crate) sandbox: Sandbox,
    pub(crate) image: I,
    pub(crate) interrupts: Interrupts,
    /// The activity of its agent.
    pub(crate) activity: Activity,
    folder: RunFolder,
    tap: LogTap,
    export: Option<Export>,
    copy: Option<CopyOfRun<'a>>,
}

/// The result of an execution.
#[derive(Debug)]
pub(crate) struct Executed<T> {
    pub(crate) status: ExitStatus,
    /// Whether the execution itself ended, even with an error, and the sandbox did not fail.
    pub(crate) is_over: bool,
    pub(crate) value: T,
}

/// The result of a whole run.
#[derive(Debug)]
pub(crate) struct Finished<T> {
    pub(crate) status: ExitStatus,
    pub(crate) value: T,
    pub(crate) workspace: WorkspaceReport,
    /// The folder of its network log.
    pub(crate) folder: PathBuf,
}

impl<'a> RunContext<'a> {
    /// Connects to the engine, and prepares image, proxy and copy of the work tree. The inner `Err`
    /// is the end of a run that a signal stopped before anything was executed: nothing of it
    /// remains.
    pub(crate) async fn open(
        settings: &'a TaskSettings,
        printer: Printer,
    ) -> Result<Result<Self, ExitStatus>, Failure> {
        Self::open_until(None, settings, printer).await
    }

    /// The same for a process that listens for signals already.
    pub(crate) async fn open_until(
        interrupts: Option<Interrupts>,
        settings: &'a TaskSettings,
        printer: Printer,
    ) -> Result<Result<Self, ExitStatus>, Failure> {
        let copy = CopyOfRun::of(settings, printer);
        let pending = copy.as_ref().map(CopyOfRun::look).transpose()?;
        let interrupts = interrupts.map_or_else(Interrupts::listen, Ok);
        let mut interrupts = interrupts.map_err(Failure::doing("listen for signals"))?;
        let mut config = settings.sandbox.clone();
        // Nobody waits at a prompt for the owner of a run.
        config.remove_at_shutdown &= Owner::of_this_process().is_none() && removal::is_possible();
        let sandbox = tokio::select! {
            connected = Sandbox::start(config) => connected?,
            interrupt = interrupts.next() => return Ok(Err(ExitStatus::Interrupted(interrupt))),
        };
        if let Some(board) = &settings.questions {
            board.begin(sandbox.instance_id());
        }
        let folder = RunFolder::create(&settings.logs, sandbox.instance_id())?;
        let tap = LogTap::start(folder.path(), &settings.copies, &settings.resolver, printer)?;
        let export = |collector| Export::start(collector, folder.path(), sandbox.instance_id(), printer);
        let export = settings.telemetry.as_ref().and_then(export);
        let activity = Activity::default();
        let image = ();
        let mut opened =
            RunContext { settings, printer, sandbox, image, interrupts, activity, folder, tap, export, copy };
        let ended = match opened.prepare(pending).await {
            Ok(Ok(image)) => return Ok(Ok(opened.with_image(image))),
            Ok(Err(status)) => Ok(Executed { status, is_over: false, value: () }),
            Err(failure) => Err(failure),
        };
        Ok(Err(opened.close(ended).await?.status))
    }

    /// Waits for `execution`, which is `controlled` and runs `program`: its control socket is open
    /// and its secrets are renewed until it ends. A signal stops it, or `closed`: the reader of our
    /// output is gone. The result is missing only if a second signal came before it had stopped;
    /// the status is the reason for the stop.
    pub(crate) async fn watch<T>(
        &mut self,
        execution: impl Future<Output = T>,
        controlled: Controlled,
        program: &str,
        closed: &Notify,
    ) -> (Option<T>, Option<ExitStatus>) {
        let control = self.control(controlled.clone(), program.to_owned());
        let renewal = self.settings.renewal.as_ref();
        let _renewing = Renewal::begin(renewal, controlled.clone(), self.printer);
        let stop = async || controlled.stop().await;
        let (result, why) = watched(execution, stop, &mut self.interrupts, closed).await;
        (result, why.or(ControlSocket::end(control).await))
    }

    /// Opens the control socket of `controlled`, which runs `program`. Without one, a run continues
    /// with a warning.
    fn control(&self, controlled: Controlled, program: String) -> Option<ControlSocket> {
        let (settings, printer) = (self.settings, self.printer);
        let report = Report {
            run: self.sandbox.instance_id().to_owned(),
            pid: std::process::id(),
            project: settings.root.display().to_string(),
            program,
            shield: None,
            until_ms: None,
            policy: match &settings.network {
                Network::Sandboxed(config) => Some(config.allowlist().clone()),
                _ => None,
            },
            policy_source: settings.policy_source.clone().filter(PolicySource::is_text),
            started_ms: now_ms(),
            screen: None,
            questions: Vec::new(),
            tools: Vec::new(),
            cost: None,
        };
        let opened = ControlSocket::open(
            &settings.sandbox.state_dir,
            controlled.clone(),
            report,
            settings.questions.clone(),
            self.activity.clone(),
            printer,
        );
        if let Some(owner) = Owner::of_this_process() {
            if let Err(error) = owner.screen.store(&self.folder().join(OUTPUT)) {
                printer.warning(format_args!("failed to store the run's output: {error}"));
            }
            tokio::spawn(serve_screen(
                owner,
                controlled,
                self.sandbox.instance_id().to_owned(),
                opened.is_ok(),
            ));
        }
        opened
            .map_err(|failure| {
                let causes = failure.causes().join(": ");
                printer.warning(format_args!(
                    "{failure}: {causes}; `sandbox policy` and `sandbox stop` do not work for this run"
                ));
            })
            .ok()
    }
}

impl<'a> RunContext<'a, ()> {
    /// The image, or the signal that came before there was one. Changes of an earlier run in the
    /// copy are settled last.
    async fn prepare(&mut self, pending: Option<Pending>) -> Result<Result<ImageTag, ExitStatus>, Failure> {
        let prepared = prepare(&self.sandbox, self.settings, self.folder.path(), self.printer);
        let image = tokio::select! {
            image = prepared => image?,
            interrupt = self.interrupts.next() => return Ok(Err(ExitStatus::Interrupted(interrupt))),
        };
        if let (Some(copy), Some(pending)) = (&self.copy, pending) {
            copy.settle(pending)?;
        }
        Ok(Ok(image))
    }

    fn with_image(self, image: ImageTag) -> RunContext<'a> {
        let Self { settings, printer, sandbox, image: (), interrupts, activity, folder, tap, export, copy } =
            self;
        RunContext { settings, printer, sandbox, image, interrupts, activity, folder, tap, export, copy }
    }
}

impl<I> RunContext<'_, I> {
    /// The record of this run, which executes `command` from now on.
    pub(crate) fn record(&self, command: &[String]) -> RunRecord {
        RunRecord::begin(&self.settings.root, command).with_copy(self.copy.is_some())
    }

    /// The folder with the network log.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Cleans up. If the run worked on a copy of the work tree, its changes are applied after that.
    pub(crate) async fn close<T>(
        mut self,
        ended: Result<Executed<T>, Failure>,
    ) -> Result<Finished<T>, Failure> {
        let printer = self.printer;
        let mut left = None;
        let is_gone = tokio::select! {
            ended = self.sandbox.hand_over() => {
                match ended {
                    Ok(handed_over) => {
                        left = handed_over;
                        true
                    }
                    Err(error) => {
                        printer.warning(format_args!("objects remain on the engine; the next run removes them: {error}"));
                        false
                    }
                }
            }
            _ = self.interrupts.next() => {
                printer.warning("stopped while cleaning up; the next run removes the rest");
                false
            }
        };
        self.tap.finish(printer).await;
        let folder = self.folder.path().to_owned();
        let is_over = is_gone && ended.as_ref().is_ok_and(|executed| executed.is_over);
        // A run that was interrupted may still hold its own copy.
        let began = |copy: &CopyOfRun<'_>| ended.is_ok() || !copy.is_of_another(is_over);
        let has_copy = self.copy.as_ref().is_some_and(began);
        let workspace = match &self.copy {
            Some(copy) => copy.finish(is_over),
            None => WorkspaceReport::new(self.settings.workspace),
        };
        // Lost output takes precedence over success, but not over an error.
        let finished = ended.map(|Executed { status, value, .. }| Finished {
            status: if workspace.has_failed() && status.code() == 0 {
                ExitStatus::Infrastructure
            } else {
                status
            },
            value,
            workspace,
            folder: folder.clone(),
        });
        let status = finished.as_ref().map_or(ExitStatus::Infrastructure, |finished| finished.status);
        // A run that never executed has no record.
        let record = RunRecord::read(&folder);
        let record = record.map(|record| record.with_copy(has_copy).finished(status.code()));
        if let Some(Err(failure)) = record.as_ref().map(|record| record.write(&folder)) {
            printer.warning(failure);
        }
        if let Some(left) = left
            && let Err(error) = removal::start(&self.settings.sandbox, left)
        {
            printer.warning(format_args!("objects remain on the engine; the next run removes them: {error}"));
        }
        if let Some(export) = self.export {
            tokio::select! {
                () = export.finish(status, record.as_ref(), printer) => {}
                _ = self.interrupts.next() => printer.warning("stopped while sending telemetry; the rest was not sent"),
            }
        }
        // Who waits for the end reads the record then.
        self.folder.close();
        finished
    }
}

/// Concurrently, because they are independent.
async fn prepare(
    sandbox: &Sandbox,
    settings: &TaskSettings,
    run: &Path,
    printer: Printer,
) -> Result<ImageTag, SandboxError> {
    let shared = async {
        if settings.has_proxy() {
            sandbox.prepare().await?;
        }
        Ok(())
    };
    let image = sandbox.ensure_image(
        ImageRequest::new(&settings.image).network_log_dir(run).on_line(|line| printer.progress(line)),
    );
    let (swept, (), image) = tokio::try_join!(sandbox.sweep_at_start(), shared, image)?;
    report_recovered_at_start(swept.git, &settings.root, &settings.mounts, printer);
    if !swept.instances.is_empty() {
        printer.note(format_args!(
            "removed {} objects of ended runs",
            swept.containers.len() + swept.networks.len()
        ));
    }
    Ok(image)
}

/// Reports the start of `controlled`, and resizes its terminal for the viewer who types.
async fn serve_screen(owner: &'static Owner, controlled: Controlled, run: String, is_open: bool) {
    controlled.started().await;
    if !is_open {
        // Nobody could find it or attach to it.
        owner.is_refused();
        controlled.stop().await;
        return;
    }
    owner.is_ready(&run);
    let mut sizes = owner.screen.sizes();
    let mut last: Option<u64> = None;
    while sizes.changed().await.is_ok() {
        let Some(RequestedSize { by, size }) = *sizes.borrow_and_update() else { continue };
        if last.is_some_and(|last| last != by) {
            // A program only redraws for a different size.
            let other = TerminalSize { rows: size.rows.saturating_add(1), ..size };
            resize(&controlled, other).await;
        }
        last = Some(by);
        resize(&controlled, size).await;
    }
}

/// With retries: a lost size would be visible until the next one.
async fn resize(controlled: &Controlled, size: TerminalSize) {
    for _ in 0..RESIZES {
        match controlled.resize(size).await {
            // A program that just ended needs no size.
            Ok(()) | Err(SandboxError::NotRunning) => return,
            Err(_) => tokio::time::sleep(BETWEEN_RESIZES).await, // tidy: sleep: the engine reports nothing to wait for
        }
    }
}

/// Waits for `execution`, and calls `stop` on a signal or when `closed` ends: the reader of our
/// output is gone. The result is missing only if a second signal came before the execution had
/// stopped.
async fn watched<T>(
    execution: impl Future<Output = T>,
    stop: impl AsyncFnOnce() -> bool,
    interrupts: &mut Interrupts,
    closed: &Notify,
) -> (Option<T>, Option<ExitStatus>) {
    tokio::pin!(execution);
    let why = tokio::select! {
        // The execution must start before anything can stop it.
        biased;
        result = &mut execution => return (Some(result), None),
        interrupt = interrupts.next() => ExitStatus::Interrupted(interrupt),
        () = closed.notified() => ExitStatus::OutputClosed,
    };
    if let Some(owner) = Owner::of_this_process() {
        owner.screen.stop_waiting();
    }
    let stopping = async { tokio::join!(&mut execution, stop()) };
    tokio::select! {
        (result, _) = stopping => (Some(result), Some(why)),
        interrupt = interrupts.next() => (None, Some(ExitStatus::Interrupted(interrupt))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ended_execution_is_not_stopped() {
        let mut interrupts = Interrupts::listen().unwrap();
        let stop = async || panic!("it was not asked for");
        let ended = watched(async { 7 }, stop, &mut interrupts, &Notify::new()).await;
        assert_eq!(ended, (Some(7), None));
    }

    #[tokio::test]
    async fn execution_stops_when_its_reader_is_gone() {
        let (closed, stopped) = (Notify::new(), Notify::new());
        let mut interrupts = Interrupts::listen().unwrap();
        let execution = async {
            closed.notify_one();
            stopped.notified().await;
            7
        };
        let stop = async || {
            stopped.notify_one();
            true
        };
        let ended = watched(execution, stop, &mut interrupts, &closed).await;
        assert_eq!(ended, (Some(7), Some(ExitStatus::OutputClosed)));
    }
}
