//! `render`: the manifests of a task and its proxy for Kubernetes.

use std::fs::File;
use std::io::{self, Write as _};
use std::mem;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr as _;

use rustix::fs::{Mode, OFlags, openat};
use sandbox::host_path::Resolver;
use sandbox::{EngineAddress, ImageSource, Network};
use serde_json::Value;

use crate::args::{GlobalArgs, RenderArgs, TaskArgs};
use crate::config::{Environment, WorkspaceMode};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::kubernetes::{ProxyPod, TaskPod, to_yaml};
use crate::printer::{Printer, sanitize_name};
use crate::settings::{TaskSettings, TrustedProject};

/// In place of an engine of this host.
const NO_ENGINE: &str = "unix:///nonexistent";

/// Prints the manifests of the proxy, or those of the task.
pub(crate) async fn render(
    mut args: RenderArgs,
    project: &TrustedProject,
    mut global: GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    project.refuse_bound_to_host("a cluster")?;
    // It is not asked; this finds none and starts none.
    global.engine = Some(EngineAddress::from_str(NO_ENGINE)?);
    let manifests = if let Some(address) = args.proxy_address {
        let task = TaskArgs {
            image: mem::take(&mut args.image),
            policy: mem::take(&mut args.policy),
            once: mem::take(&mut args.once),
            workspace: Some(WorkspaceMode::Copy),
            ..TaskArgs::default()
        };
        let settings = project.task(&task, WorkspaceMode::Copy, None, &global, environment, printer);
        let settings = Box::pin(settings).await?;
        of_task(&args, address, &settings, printer)?
    } else {
        let upstream = project.upstream()?;
        let pod = ProxyPod {
            name: &args.name,
            image: args.proxy_image.as_deref().unwrap_or_default(),
            dns: args.dns,
            allow_addresses: upstream.allow_addresses.iter().map(ToString::to_string).collect(),
        };
        pod.manifests()
    };
    let text = to_yaml(&manifests).map_err(Failure::doing("write the manifests"))?;
    printer.data(text.as_bytes());
    Ok(ExitStatus::Success)
}

fn of_task(
    args: &RenderArgs,
    address: Ipv4Addr,
    settings: &TaskSettings,
    printer: Printer,
) -> Result<Vec<Value>, Failure> {
    let Network::Sandboxed(network) = &settings.network else {
        return Err(Failure::new("without `network_sandbox` a task has no proxy"));
    };
    let ImageSource::Existing(image) = &settings.image else {
        return Err(Failure::usage("a cluster builds no image").with_hint("name one with --image"));
    };
    let limits = settings.limits;
    if limits.pids.is_some() || limits.disk.is_some() {
        printer.warning(
            "limits of processes and of disk space are the cluster's: `pids_limit` and `disk` are left out",
        );
    }
    let proxy = network.remote_proxy(address, args.dns.into(), &settings.sandbox.upstream)?;
    let path = args.start_document.as_deref().unwrap_or(Path::new(""));
    write_new(path, &proxy.start_document, &settings.resolver)?;
    let pod = TaskPod {
        name: &args.name,
        image,
        command: &args.command,
        variables: settings.env.variables(),
        working_dir: &settings.working_dir,
        limits,
        runtime_class: args.runtime_class.as_deref(),
        claim: args.claim.as_deref(),
        proxy: &proxy,
        proxy_address: address,
    };
    Ok(pod.manifests(args.kind))
}

/// Writes a file that only this user can read, where no task could put another one.
fn write_new(path: &Path, bytes: &[u8], resolver: &Resolver) -> Result<(), Failure> {
    let shown = sanitize_name(&path.display().to_string());
    let name =
        path.file_name().ok_or_else(|| Failure::usage(format!("`{shown}` is not the name of a file")))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = resolver.find(parent.unwrap_or(Path::new(".")))?;
    if parent.is_untrusted() {
        return Err(Failure::new(format!("`{shown}` would be in a folder of tasks"))
            .with_hint("it has real credentials: name a file outside of the project"));
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&parent, name, flags, Mode::RUSR | Mode::WUSR);
    let written = file.map_err(io::Error::from).and_then(|file| File::from(file).write_all(bytes));
    written.map_err(|error| {
        let exists = error.kind() == io::ErrorKind::AlreadyExists;
        let failure = Failure::doing(format!("create `{shown}`"))(error);
        if exists { failure.with_hint("remove it, or name another with --start-document") } else { failure }
    })
}
