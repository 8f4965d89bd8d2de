//! The world of a test run as its tests see it: a server in a process of its own, which they ask
//! over a Unix socket.
//!
//! Each connection carries one call and its answer, a line of JSON each. The tests are processes of
//! their own, several at once, and share what the server remembers.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::routes::State;
use super::{Backend, Lock, ORIGIN, Seen};

/// Names the socket to the tests.
const VARIABLE: &str = "SANDBOX_E2E_WORLD";

#[derive(Debug, Serialize, Deserialize)]
enum Call {
    Roots,
    Seen { host: String },
    Forget { host: String },
    Lock { host: String, lock: Lock },
    Delegate { domain: String, backend: Backend },
    Release { name: String },
}

/// Everything that is outside, for a test.
#[derive(Debug)]
pub struct World {
    socket: PathBuf,
    roots_pem: String,
}

impl World {
    /// The world at [`ORIGIN`] that this run's tests share.
    ///
    /// # Panics
    ///
    /// When there is none: the tests were not started by `cargo xtask e2e`.
    pub fn shared() -> &'static World {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(|| {
            let socket = std::env::var_os(VARIABLE)
                .unwrap_or_else(|| panic!("{VARIABLE} is not set; run the tests with `cargo xtask e2e`"));
            Self::at(socket.into())
        })
    }

    fn at(socket: PathBuf) -> Self {
        let roots_pem = ask(&socket, &Call::Roots);
        Self { socket, roots_pem }
    }

    /// The authority of the origin's certificates, for `upstream.extra_roots`.
    #[must_use]
    pub fn roots_pem(&self) -> &str {
        &self.roots_pem
    }

    /// The name server.
    #[must_use]
    pub fn dns(&self) -> SocketAddr {
        SocketAddr::from((ORIGIN, 53))
    }

    /// The requests that the origin got under `host`: the first ten thousand.
    #[must_use]
    pub fn seen(&self, host: &str) -> Vec<Seen> {
        ask(&self.socket, &Call::Seen { host: host.to_owned() })
    }

    /// Forgets the requests that the origin got under `host`.
    pub fn forget(&self, host: &str) {
        ask::<()>(&self.socket, &Call::Forget { host: host.to_owned() });
    }

    /// From now on `host` answers only to requests that open `lock`.
    pub fn lock(&self, host: &str, lock: Lock) {
        ask::<()>(&self.socket, &Call::Lock { host: host.to_owned(), lock });
    }

    /// From now on `backend` answers for `domain` and for every name below it.
    pub fn delegate(&self, domain: &str, backend: Backend) {
        ask::<()>(&self.socket, &Call::Delegate { domain: domain.to_owned(), backend });
    }

    /// Lets the server-sent-event stream `name` (the last part of `/sse/NAME` or
    /// `/mirror/sse/NAME`) go on to its second event.
    pub fn release(&self, name: &str) {
        ask::<()>(&self.socket, &Call::Release { name: name.to_owned() });
    }
}

/// A test cannot go on without its world.
fn ask<T: DeserializeOwned>(socket: &Path, call: &Call) -> T {
    exchange(socket, call).unwrap_or_else(|error| panic!("the world at {}: {error}", socket.display()))
}

fn exchange<T: DeserializeOwned>(socket: &Path, call: &Call) -> io::Result<T> {
    let mut stream = UnixStream::connect(socket)?;
    serde_json::to_writer(&mut stream, call)?;
    stream.write_all(b"\n")?;
    Ok(serde_json::from_reader(stream)?)
}

/// Answers at `socket` on a thread of its own until the process ends.
pub(super) fn serve(socket: &Path, state: Arc<State>, roots_pem: String) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A test that was killed meanwhile reads no answer.
            let _ = answer(&stream, &state, &roots_pem);
        }
    });
    Ok(())
}

fn answer(stream: &UnixStream, state: &State, roots_pem: &str) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line)? {
        Call::Roots => serde_json::to_string(roots_pem),
        Call::Seen { host } => serde_json::to_string(&state.seen(&host)),
        Call::Forget { host } => serde_json::to_string(&state.forget(&host)),
        Call::Lock { host, lock } => serde_json::to_string(&state.lock(&host, lock)),
        Call::Delegate { domain, backend } => serde_json::to_string(&state.delegate(&domain, backend)),
        Call::Release { name } => serde_json::to_string(&state.release(&name)),
    };
    let mut writer = stream;
    writer.write_all(answer?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages_api::Script;

    #[test]
    fn calls_of_another_process_reach_the_state() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        serve(&socket, Arc::new(State::new(Script::default())), "the roots\n".into()).unwrap();
        let world = World::at(socket);
        assert_eq!(world.roots_pem(), "the roots\n");
        assert!(world.seen("open.test").is_empty());
        world.forget("open.test");
        world.lock("open.test", Lock::Header("x-key".into(), "t0k".into()));
        world.delegate("s3.test", Backend { address: ([127, 0, 0, 1], 1).into(), session_token: None });
        world.release("stream");
    }
}
