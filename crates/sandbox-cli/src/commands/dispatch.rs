//! From the command line to the command.

use std::io;
use std::path::Path;

use crate::args::{
    AllowlistCommand, BackgroundArgs, BuildArgs, Cli, Command, ExecArgs, GlobalArgs, RunArgs, SlurmCommand,
    VerifyArgs, WorkspaceAccess,
};
use crate::config::{Environment, Places};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::{Needs, Project, TrustedProject};
use crate::trace;
use crate::trust::Trust;
use crate::work_tree;

use super::{
    agent, allowlist, apply, attach, build, bundle, clean, config, diff, discard, doctor, exec, gate,
    generate, image, init, job, jobs, logs, policy, receipt, render, report, run, run_bundle, runs, ssh,
    status, submit, trust, verify, watch,
};

use run_bundle::OfCaller;

/// Runs the command.
pub(crate) async fn dispatch(
    cli: Cli,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let (global, command) = cli.spelled_out();
    work_tree::enter(&command, &global, environment, printer)?;
    trace::begin(printer, log_file(&command), environment)?;
    let state = || Places::find(environment).map(|places| places.state);
    let project = || Project::load(&global, environment, printer);
    let trust_flag = global.trust.clone().unwrap_or_default();
    let needing = |needs: Needs<'_>| project()?.trusted(Some(needs), &trust_flag, printer);
    let trusted = |image, allowlist| needing(Needs { image: Some(image), allowlist });
    // Commands that only clean up after runs obey nothing but the configuration.
    let configured = || project()?.trusted(None, &trust_flag, printer);
    let sandbox = || configured()?.sandbox(&global, environment, printer);
    if let (Some(background), false) = (background(&command), global.owner) {
        return attach::in_front(background, command.asks(), &state()?, printer).await;
    }
    match command {
        Command::Run(args) => Box::pin(run_in(args, needing, &global, environment, printer)).await,
        Command::Exec(args) if args.run.is_some() => exec_in_run(args, environment, printer).await,
        Command::Exec(args) => Box::pin(exec_in(args, needing, &global, environment, printer)).await,
        // Expanded to `run` before.
        Command::Shell(_) => Ok(ExitStatus::Usage),
        Command::Build { args, force } => {
            build_in(&trusted(&args.image, None)?, &args, force, &global, environment, printer).await
        }
        Command::Agent(args) => {
            let project = trusted(&args.task.image, args.task.policy.allowlist.as_deref())?;
            Box::pin(agent::start(*args, project, &global, environment, printer)).await
        }
        Command::Receipt(command) => receipt::receipt(&command, environment, printer),
        Command::Bundle(command) => bundle::bundle(&command, needing, environment, printer),
        Command::Render(args) => {
            let project = trusted(&args.image, args.policy.allowlist.as_deref())?;
            render::render(*args, &project, global, environment, printer).await
        }
        Command::Slurm(command) => Box::pin(slurm(command, global, environment, printer)).await,
        Command::Init(args) => init::init(&args, environment, printer),
        Command::Diff(args) => diff::diff(&args, &configured()?, sandbox, environment, printer).await,
        Command::Apply(args) => apply::apply(&args, &configured()?, sandbox, environment, printer).await,
        Command::Discard(_) => discard::discard(&configured()?, sandbox, printer).await,
        Command::Image(command) => {
            let project = command.image().map_or_else(configured, |image| trusted(image, None))?;
            let config = || project.sandbox(&global, environment, printer);
            image::image(command, &project, config, trust_flag == Trust::Now, printer).await
        }
        Command::Trust(args) if args.list => trust::list(&args, environment, printer),
        Command::Trust(args) => trust::trust(&args, &project()?, &trust_flag, printer),
        Command::Allowlist(AllowlistCommand::Packages(args)) => {
            allowlist::packages(&args, &trusted(&args.image, None)?, &global, environment, printer).await
        }
        Command::Allowlist(args) => allowlist::allowlist(args, &project()?, environment, printer),
        Command::Config(command) => Ok(config::config(&command, project, environment, printer)),
        Command::Ssh(command) => ssh::ssh(command, project, configured, environment, printer).await,
        Command::Gate(command) => gate::gate(command, &state()?, printer).await,
        Command::Logs(args) => logs::logs(args, &project()?, printer).await,
        Command::Report(args) => report::report(args, &project()?, printer),
        Command::Policy(command) => {
            let read = |file: &Path| {
                let project = needing(Needs { image: None, allowlist: Some(file) })?;
                // The run keeps the outer policies that it began with.
                project.read_allowlist(file)?.ok_or_else(|| project.missing_allowlist(file))
            };
            policy::policy(command, &state()?, read, printer).await
        }
        Command::Ps(args) => runs::ps(&args, &Places::find(environment)?, printer).await,
        Command::Watch(args) => watch::watch(args, environment, printer).await,
        Command::Attach(args) => attach::attach(args, &Places::find(environment)?, printer).await,
        Command::Stop(args) => policy::stop(&args, &state()?, printer).await,
        Command::Wait(args) => runs::wait(&args, &Places::find(environment)?, printer).await,
        Command::Rm(args) => runs::rm(&args, &Places::find(environment)?, printer),
        Command::Status(args) => {
            status::status(sandbox()?, &project()?, &trust_flag, args.output, printer).await
        }
        Command::Clean(args) => {
            clean::clean(sandbox()?, project()?.known_image(&trust_flag), &args, printer).await
        }
        Command::Doctor(args) => doctor::doctor(project(), sandbox, environment, args.output, printer).await,
        Command::Verify(args) => {
            verify_in(&trusted(&args.image, None)?, &args, &global, environment, printer).await
        }
        Command::Completions { shell } => Ok(generate::completions(shell, printer)),
        Command::Man { dir } => generate::man(dir.as_deref(), environment, printer),
    }
}

async fn slurm(
    command: SlurmCommand,
    global: GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    match command {
        SlurmCommand::Submit(args) => submit::submit(&args, &global, environment, printer),
        SlurmCommand::Jobs(args) => jobs::jobs(&args, environment, printer),
        SlurmCommand::Collect(args) => jobs::collect(&args, environment, printer).await,
        SlurmCommand::Cancel(args) => jobs::cancel(&args, environment, printer).await,
        SlurmCommand::Job(args) => job::job(&args, global, environment, printer).await,
    }
}

/// The flags of a run that a separate process owns; `None` if this process owns it.
fn background(command: &Command) -> Option<BackgroundArgs> {
    let typed = || match command {
        Command::Agent(args) => agent::is_typed(args).then(|| args.on_terminal()),
        _ => None,
    };
    command.background().or_else(typed)
}

async fn exec_in_run(
    args: ExecArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let ExecArgs { run, command, terminal: has_terminal, .. } = args;
    let in_run = exec::InRun { run: run.unwrap_or_default(), command, has_terminal };
    let kind = environment.text("TERM").unwrap_or_default();
    exec::exec(in_run, kind, &Places::find(environment)?.state, printer).await
}

async fn run_in(
    args: RunArgs,
    trusted: impl FnOnce(Needs<'_>) -> Result<TrustedProject, Failure>,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if let RunArgs { bundle: Some(bundle), result: Some(result), .. } = &args {
        let mut stdin = args.secrets_stdin.then(io::stdin);
        let secrets = stdin.as_mut().map(|stdin| stdin as &mut (dyn io::Read + Send));
        let caller = OfCaller { program: args.agent_bin.as_deref(), secrets, interrupts: None };
        return run_bundle::run_bundle(bundle, result, caller, global, environment, printer).await;
    }
    let allowlist = args.task.policy.allowlist.as_deref();
    let project = trusted(Needs { image: Some(&args.task.image), allowlist })?;
    let settings = project.task(&args.task, run::WORKSPACE, None, global, environment, printer).await?;
    let streams = run::Streams::of(&args.background, environment.text("TERM").unwrap_or_default());
    run::run(settings, args.command, streams, printer).await
}

async fn build_in(
    project: &TrustedProject,
    args: &BuildArgs,
    force: bool,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let config = project.sandbox(global, environment, printer)?;
    build::build(args, force, project, config, printer).await
}

async fn verify_in(
    project: &TrustedProject,
    args: &VerifyArgs,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let settings = project.verification(args, global, environment, printer)?;
    verify::verify(settings, args.output, printer).await
}

async fn exec_in(
    args: ExecArgs,
    trusted: impl FnOnce(Needs<'_>) -> Result<TrustedProject, Failure>,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let project = trusted(Needs { image: Some(&args.image), allowlist: args.allowlist.as_deref() })?;
    let settings = project.exec(&args, global, environment, printer)?;
    let status = run::run(settings, args.command, run::Streams::default(), printer).await?;
    if status.code() != 0 && args.workspace == WorkspaceAccess::Rw && project.belongs_to_root() {
        printer.hint(
            "the folder belongs to root, and the command runs as user 1000, which cannot write to \
             it: run `sudo chown -R 1000 .`, or use `sandbox run`, which runs commands as root in \
             the container",
        );
    }
    Ok(status)
}

/// The file for the sandbox's own log, in addition to stderr.
fn log_file(command: &Command) -> Option<&Path> {
    match command {
        Command::Exec(args) => args.log.as_deref(),
        command => command.task()?.log.as_deref(),
    }
}
