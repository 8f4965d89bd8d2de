//! `base-image`: builds Debian images for tasks, without a registry.

use anyhow::Result;
use clap::Args;

use crate::debian::Debian;
use crate::engine::{Image, Podman, ensure_image};
use crate::task_engine;

#[derive(Args)]
pub(crate) struct BaseImageArgs {
    /// Import the images into the private engine of this podman version.
    #[arg(long, value_name = "VERSION")]
    podman: Option<Podman>,
    /// Also build the image with the clients for the end-to-end tests.
    #[arg(long)]
    clients: bool,
}

/// The minimal image for tasks.
pub(crate) const BASE: Image = Image {
    name: "sandbox-base",
    debian: Debian { suite: "bookworm", packages: &["bash", "ca-certificates", "curl", "git"] },
};

/// The image with every client whose trust in the CA and whose use of the proxy the end-to-end
/// tests check.
pub(crate) const CLIENTS: Image = Image {
    name: "sandbox-clients",
    debian: Debian {
        suite: "bookworm",
        packages: &[
            "bash",
            "ca-certificates",
            "curl",
            "git",
            "openssh-client",
            "python3",
            "python3-requests",
            "python3-httpx",
            "python3-websockets",
            "python3-grpcio",
            "python3-pip",
            "nodejs",
            "awscli",
            "python3-boto3",
            "openssl",
            "wget",
            "iproute2",
            "iputils-ping",
            "bind9-dnsutils",
            "procps",
            "busybox",
            "socat",
            "postgresql-client",
            "python3-psycopg2",
            "redis-tools",
            "vim-tiny",
            "less",
            "htop",
            "tmux",
        ],
    },
};

pub(crate) fn run(args: &BaseImageArgs) -> Result<()> {
    let socket = task_engine::find_or_start(args.podman)?;
    ensure_image(&socket, &BASE)?;
    println!("{}", BASE.reference());
    if args.clients {
        ensure_image(&socket, &CLIENTS)?;
        println!("{}", CLIENTS.reference());
    }
    Ok(())
}
