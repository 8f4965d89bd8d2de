//! The command line, as clap types without behaviour.

mod agent;
mod allowlist;
mod background;
mod bundle;
mod cli;
mod config;
mod copy;
mod exec;
mod gate;
mod image;
mod init;
mod logs;
mod policy;
mod receipt;
mod render;
mod report;
mod run;
mod slurm;
mod ssh;
mod task;
mod trust;
mod verify;
mod watch;

pub(crate) use agent::{AgentArgs, AgentInput, AgentOutput, AgentTaskArgs, EachTask, StallTime};
pub(crate) use allowlist::{
    AllowlistCommand, CheckArgs, DiffPoliciesArgs, EditArgs, LearnArgs, PackageClient, PackagesArgs,
    SimulateArgs, WhyArgs,
};
pub(crate) use background::{AttachArgs, BackgroundArgs, RunsArg, WaitArgs};
pub(crate) use bundle::{BundleCommand, PackArgs, ShowBundleArgs};
pub(crate) use cli::{CleanArgs, Cli, Command, GlobalArgs, Output, PsArgs};
pub(crate) use config::{ConfigCheckArgs, ConfigCommand};
pub(crate) use copy::{ApplyArgs, CopyOfRun, DiffArgs, ResultArgs};
pub(crate) use exec::{ExecArgs, ExecNetwork, WorkspaceAccess};
pub(crate) use gate::{GateCommand, GateSyncArgs};
pub(crate) use image::{BuildArgs, ImageCommand};
pub(crate) use init::InitArgs;
pub(crate) use logs::{LogOutput, LogsArgs};
pub(crate) use policy::{PolicyCommand, RunArg, StopArgs};
pub(crate) use receipt::{ReceiptCommand, VerifyReceiptArgs};
pub(crate) use render::{RenderArgs, TaskKind};
pub(crate) use report::ReportArgs;
pub(crate) use run::{RunArgs, ShellArgs};
pub(crate) use slurm::{CancelArgs, CollectArgs, JobArgs, JobsArgs, SlurmCommand, SubmitArgs};
pub(crate) use ssh::{SshCommand, SshScopeArgs, SshUnlockArgs};
pub(crate) use task::{ImageArgs, OnceArgs, PolicyArgs, TaskArgs};
pub(crate) use trust::TrustArgs;
pub(crate) use verify::{Preset, VerifyArgs};
pub(crate) use watch::WatchArgs;
