//! Secrets on their way to a job: encrypted by `munge` for this user, through a step of the job, whose
//! streams Slurm does not encrypt, and a socket on the node. They are in no file, environment or argument.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use sandbox_files::{FileLock, or_absent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::time::timeout;

use super::{Node, Slurm};
use crate::config::Environment;
use crate::failure::Failure;
use crate::printer::Printer;

/// Bytes of secrets: `munge` encrypts more than it can decrypt.
const MOST: usize = 700_000;
/// Bytes of the encrypted ones.
const MOST_SEALED: u64 = 4 << 20;
/// Seconds for which `unmunge` takes them.
const LIFETIME: &str = "--ttl=300";
/// How long a job waits for them.
const PATIENCE: Duration = Duration::from_mins(10);
/// The maximum time to send them.
const SENDING: Duration = Duration::from_secs(20);
/// The answer of a job that has them.
const TAKEN: u8 = 1;

/// The secrets, which only this user can decrypt.
pub(crate) fn sealed(slurm: &Slurm, secrets: &[u8]) -> Result<String, Failure> {
    if secrets.len() > MOST {
        return Err(Failure::usage(format!("the variables on stdin have more than {MOST} bytes")));
    }
    let user = format!("--restrict-uid={}", geteuid().as_raw());
    slurm.run("munge", [user.as_str(), LIFETIME], secrets)
}

/// The secrets of a job, and a lock for as long as it has them.
pub(crate) type Taken = (Vec<u8>, FileLock);

/// Waits for the secrets of this job. `None` if there were none in time.
pub(crate) async fn await_secrets(
    node: &Node,
    slurm: &Slurm,
    environment: &Environment,
    printer: Printer,
) -> Result<Option<Taken>, Failure> {
    let path = socket(node, environment)?;
    let failed = || Failure::doing(format!("listen on `{}`", path.display()));
    let mark = mark(&path);
    for old in [&path, &mark] {
        or_absent(fs::remove_file(old)).map_err(failed())?;
    }
    let listener = UnixListener::bind(&path).map_err(failed())?;
    let taken = timeout(PATIENCE, async {
        loop {
            let (mut stream, _) = listener.accept().await.map_err(failed())?;
            let mut text = Vec::new();
            // Who sent a part of them sends all of them again.
            let mut sealed = (&mut stream).take(MOST_SEALED);
            if !matches!(timeout(SENDING, sealed.read_to_end(&mut text)).await, Ok(Ok(_))) {
                continue;
            }
            match slurm.run("unmunge", ["--metadata=/dev/null", "--output=-"], &text) {
                Ok(secrets) => {
                    if stream.write_all(&[TAKEN]).await.is_ok() {
                        return Ok(secrets.into_bytes());
                    }
                }
                Err(failure) => printer.failure(&failure),
            }
        }
    });
    let taken: Result<Option<_>, Failure> = taken.await.ok().transpose();
    or_absent(fs::remove_file(&path)).map_err(failed())?;
    let Some(secrets) = taken? else { return Ok(None) };
    let lock = FileLock::exclusive(&mark).await.map_err(failed())?;
    Ok(Some((secrets, lock)))
}

/// Removes what the job has in the folder for sockets.
pub(crate) fn forget_secrets(node: &Node, environment: &Environment) {
    if let Ok(path) = socket(node, environment) {
        // At worst an empty file stays until the next boot.
        let _ = fs::remove_file(mark(&path));
        let _ = fs::remove_file(path);
    }
}

/// The file that says to a second `sandbox collect` that a job has its secrets, while it is locked: a
/// killed attempt with the same id leaves it.
fn mark(socket: &Path) -> PathBuf {
    socket.with_added_extension("taken")
}

/// Passes secrets from stdin to the job that this step is part of.
pub(crate) fn pass_secrets(node: &Node, environment: &Environment) -> Result<(), Failure> {
    let path = socket(node, environment)?;
    let pass = || -> io::Result<u8> {
        let mut stream = UnixStream::connect(&path)?;
        io::copy(&mut io::stdin().lock().take(MOST_SEALED), &mut stream)?;
        stream.flush()?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer[0])
    };
    match pass() {
        Ok(TAKEN) => Ok(()),
        Err(_) if is_locked(&mark(&path)) => Ok(()),
        Ok(_) => Err(Failure::new("the job did not take the secrets")),
        Err(error) => Err(Failure::doing("pass secrets to the job")(error)),
    }
}

fn is_locked(mark: &Path) -> bool {
    mark.exists() && matches!(FileLock::try_exclusive(mark), Ok(None))
}

fn socket(node: &Node, environment: &Environment) -> Result<PathBuf, Failure> {
    let job = environment.text("SLURM_JOB_ID").filter(|job| job.bytes().all(|byte| byte.is_ascii_digit()));
    let job = job.ok_or_else(|| Failure::usage("this is not a job: SLURM_JOB_ID has no number"))?;
    Ok(node.run.join(format!("secrets-{job}")))
}
