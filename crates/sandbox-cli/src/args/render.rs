//! `render`.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::{ImageArgs, OnceArgs, PolicyArgs};

/// The flags of tasks.
const OF_TASKS: [&str; 10] =
    ["image", "allowlist", "allow", "presets", "timeout", "variables", "memory", "cpus", "pids", "workdir"];

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("part").required(true).args(["proxy_image", "proxy_address"]),
    mut_arg("image", |arg| arg.help("Image of the task in the cluster's registry [default: `image` in the configuration]")),
    mut_arg("dockerfile", |arg| arg.hide(true)),
    mut_arg("context", |arg| arg.hide(true)),
    mut_arg("max_image_age", |arg| arg.hide(true)),
    mut_arg("timeout", |arg| arg.help("Time limit of the pod, such as 90s, 10m or 2h")),
    after_help = "\
The task's pod needs the address of the proxy's, so they are rendered one after the other:

  sandbox render --kubernetes --name fix --dns 192.0.2.53 \\
      --proxy-image registry.example/sandbox-proxy > proxy.yaml
  sandbox render --kubernetes --name fix --dns 192.0.2.53 --proxy-address 10.244.0.7 \\
      --start-document ~/start.json --image registry.example/tests \\
      -- cargo test > task.yaml

docs/kubernetes.md has all steps, and what is not promised."
)]
pub(crate) struct RenderArgs {
    /// Write manifests for Kubernetes
    #[arg(long, required = true)]
    pub(crate) kubernetes: bool,
    /// Name of the task's objects; those of the proxy end in `-proxy`
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Name server that the proxy queries, not a Service of the cluster; port 53 unless it has one
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = server)]
    pub(crate) dns: SocketAddrV4,
    /// Print the proxy's pod, with this image, and the network policies of both pods
    #[arg(long, value_name = "IMAGE", conflicts_with_all = OF_TASKS)]
    pub(crate) proxy_image: Option<String>,
    /// Print the task's pod, whose proxy has this address
    #[arg(long, value_name = "ADDRESS", requires = "start_document", requires = "command")]
    pub(crate) proxy_address: Option<Ipv4Addr>,
    /// Create this file with the proxy's start document, which has real credentials
    #[arg(long, value_name = "FILE", requires = "proxy_address")]
    pub(crate) start_document: Option<PathBuf>,
    /// Kind of object that has the task's pod
    #[arg(long = "as", value_name = "KIND", value_enum, default_value_t)]
    pub(crate) kind: TaskKind,
    /// `RuntimeClass` of the task's pod, such as gvisor
    #[arg(long, value_name = "NAME", requires = "proxy_address")]
    pub(crate) runtime_class: Option<String>,
    /// `PersistentVolumeClaim` with the task's files, mounted at /workspace [default: an empty volume]
    #[arg(long, value_name = "NAME", requires = "proxy_address")]
    pub(crate) claim: Option<String>,
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) once: OnceArgs,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD", conflicts_with = "proxy_image")]
    pub(crate) command: Vec<String>,
}

/// The kind of object that has a task's pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskKind {
    /// A Job, which runs it once
    #[default]
    Job,
    /// A Sandbox of agents.x-k8s.io/v1beta1, whose controller must be in the cluster
    Sandbox,
}

/// A label of DNS, short enough for the names that are made of it.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=50).contains(&text.len())
        && text.chars().all(is_plain)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        // The objects of another task's proxy.
        && !text.ends_with("-proxy");
    let problem = "use lower-case letters, digits and `-`, at most 50, starting with a letter and not ending with `-` or `-proxy`";
    if is_name { Ok(text.to_owned()) } else { Err(problem.to_owned()) }
}

fn server(text: &str) -> Result<SocketAddrV4, String> {
    let alone = text.parse().map(|address| SocketAddrV4::new(address, 53));
    alone.or_else(|_| text.parse()).map_err(|_| "write an IPv4 address, and a port after `:`".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn names_and_servers_are_those_that_kubernetes_takes() {
        assert_eq!(name("fix-1").as_deref(), Ok("fix-1"));
        for text in ["", "Fix", "1x", "a.b", "-a", "a-", "a-proxy", &"a".repeat(51)] {
            assert!(name(text).is_err(), "{text}");
        }
        assert_eq!(server("10.0.0.1"), Ok("10.0.0.1:53".parse().unwrap()));
        assert_eq!(server("10.0.0.1:5353"), Ok("10.0.0.1:5353".parse().unwrap()));
        for text in ["kube-dns", "[::1]:53", "10.0.0.1:x"] {
            assert!(server(text).is_err(), "{text}");
        }
    }

    #[test]
    fn either_part_is_rendered() {
        let parse = |flags: &[&str]| {
            let common = ["sandbox", "render", "--kubernetes", "--name", "x", "--dns", "10.0.0.1"];
            Cli::try_parse_from(common.iter().chain(flags)).map(drop)
        };
        let task = ["--proxy-address", "10.0.0.7", "--start-document", "start"];
        assert!(parse(&["--proxy-image", "p"]).is_ok());
        assert!(parse(&[&task[..], &["--", "make"]].concat()).is_ok());
        for flags in [
            &[][..],
            &task,
            &["--proxy-image", "p", "--", "make"],
            &["--proxy-image", "p", "-e", "A=b"],
            &["--proxy-address", "10.0.0.7", "--", "make"],
            &[&task[..], &["--proxy-image", "p", "--", "make"]].concat(),
        ] {
            assert!(parse(flags).is_err(), "{flags:?}");
        }
    }
}
