//! An S3 server that verifies signatures, under the domain names of the real one.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};

use tempfile::TempDir;

use crate::secret::AwsKey;
use crate::setting::Setting;
use crate::world::{Backend, World};

/// A server that serves the domain of S3 in one region.
#[derive(Debug)]
pub struct S3 {
    /// The only key that it accepts.
    pub key: AwsKey,
    region: &'static str,
    child: Child,
    /// Closing it stops the server, even if this process is killed.
    lifeline: Option<ChildStdin>,
    _objects: TempDir,
}

impl S3 {
    /// Starts the server. Each test uses its own region; a temporary key has a session token.
    ///
    /// # Panics
    ///
    /// If it does not listen.
    #[must_use]
    pub fn start(region: &'static str, temporary: bool) -> Self {
        let key = AwsKey::generate(temporary);
        let objects = tempfile::tempdir().expect("a folder");
        let domain = format!("s3.{region}.amazonaws.com");
        let mut child = command(&key, &domain).arg(objects.path()).spawn().expect("a shell");
        let lifeline = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = output.lines().map_while(Result::ok);
        let address = lines.find_map(|line| address(&line)).expect("the S3 server listens");
        // A full pipe would block the server.
        std::thread::spawn(move || lines.for_each(drop));
        let session_token = key.token.clone();
        World::shared().delegate(&domain, Backend { address, session_token });
        Self { key, region, child, lifeline, _objects: objects }
    }

    /// Its domain name: requests go to it, or to a bucket as a subdomain.
    #[must_use]
    pub fn domain(&self) -> String {
        format!("s3.{}.amazonaws.com", self.region)
    }

    /// Its region.
    #[must_use]
    pub fn region(&self) -> &'static str {
        self.region
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "the server is a separate program")]
fn command(key: &AwsKey, domain: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "\"$@\" & server=$!; read -r _; kill $server", "s3-server"])
        .arg(&Setting::of_this_run().s3_server)
        .args(["--host", "127.0.0.1", "--port", "0", "--domain", domain])
        .args(["--access-key", &key.id, "--secret-key", &key.secret])
        .env("RUST_LOG", "s3s_fs=info")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// The address in `… server is running at http://127.0.0.1:8014`.
fn address(line: &str) -> Option<SocketAddr> {
    let rest = line.split("running at http://").nth(1)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
    rest.get(..end.unwrap_or(rest.len()))?.parse().ok()
}
