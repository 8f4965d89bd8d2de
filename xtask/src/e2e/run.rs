//! One run of tests on one engine, in the *world* namespace, where servers for the tests listen.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::folder::RunFolder;
use super::programs::Programs;
use super::world::World;
use crate::cargo;
use crate::engine::{Podman, PrivateEngine, Socket, ensure_image, ordinary_user, ping};
use crate::netns::{self, Pair};
use crate::nextest::{self, Case};
use crate::process::command;
use crate::report::{say, step};
use crate::results::Results;
use crate::task_base_image::{BASE, CLIENTS};

/// The port of the host's service, for tests without root.
const HOST_SERVICE: u16 = 7070;
/// The number of concurrent tests: more than two processors, since tests mostly wait.
const TEST_THREADS: usize = 3;
/// With more failures than this, chance is not the cause, and a second try would only take time.
const SECOND_TRIES: usize = 10;

/// A running engine with images for tasks.
pub(crate) struct TestEngine {
    name: &'static str,
    socket: Socket,
    /// Podman's major version.
    major: String,
    pair: Option<Pair>,
    /// The engine, if an ordinary user runs it and the tests.
    user: Option<PrivateEngine>,
}

impl TestEngine {
    /// Starts the private engine unless it is running.
    pub(crate) fn private(podman: Podman) -> Result<Self> {
        let engine = PrivateEngine::new(Some(podman));
        let version = step(&format!("starting {}", podman.name()), || engine.ensure())?;
        let pair = Some(Pair::of(podman.name()));
        let socket = engine.socket().clone();
        let user = podman.is_rootless().then_some(engine);
        Self::with_images(podman.name(), socket, &version, pair, user)
    }

    /// The engine behind a socket that the user specified.
    pub(crate) fn named(socket: &str) -> Result<Self> {
        let socket = Socket::parse(socket).with_context(|| format!("{socket} is not a unix socket"))?;
        let version = ping(&socket).with_context(|| format!("no podman responds on {}", socket.url()))?;
        say("this engine has no separate namespaces: tests that need them will fail");
        Self::with_images("named", socket, &version, None, None)
    }

    fn with_images(
        name: &'static str,
        socket: Socket,
        version: &str,
        pair: Option<Pair>,
        user: Option<PrivateEngine>,
    ) -> Result<Self> {
        ensure_image(&socket, &BASE)?;
        ensure_image(&socket, &CLIENTS)?;
        let major = version.split('.').next().unwrap_or_default().to_owned();
        Ok(Self { name, socket, major, pair, user })
    }

    /// Runs the tests that `filter` selects. Failed tests run once more, alone, unless they saw an
    /// attack succeed.
    pub(crate) fn test(&self, programs: &Programs, filter: &str, threads: Option<usize>) -> Result<Results> {
        let folder = RunFolder::create(self.name, &self.socket)?;
        if self.user.is_some() {
            ordinary_user::own(&folder.environment().map(|(_, path)| path))?;
        }
        let service = self.user.as_ref().map(|engine| engine.host_service(HOST_SERVICE)).transpose()?;
        let control = folder.path().join("world");
        let mut stand_in = self.entered();
        stand_in.args(self.user_prefix()?).arg(&programs.stand_in).envs(folder.environment());
        let world = World::start(stand_in, &control)?;
        let run = |filter: &str, threads: usize| -> Result<Vec<Case>> {
            let mut nextest = programs.tests.command("run", self.entered());
            nextest.args(["--ignore-default-filter", "-E", filter]).arg(format!("--test-threads={threads}"));
            nextest.envs(programs.environment()).envs(self.environment()?).envs(folder.environment());
            nextest.env("SANDBOX_E2E_WORLD", &control);
            nextest::run(&mut nextest)
        };
        let results =
            with_second_try(&format!(" on {}", self.name), filter, threads.unwrap_or(TEST_THREADS), run);
        drop((world, service));
        folder.remove()?;
        results
    }

    /// The beginning of a command in the world's network; the caller adds a program and arguments.
    fn entered(&self) -> Command {
        match &self.pair {
            Some(pair) => netns::enter(&pair.world, []),
            None => command("env", ["--"]),
        }
    }

    /// The prefix that runs a program as the user, on the file system where the user exists.
    fn user_prefix(&self) -> Result<Vec<String>> {
        match &self.user {
            Some(engine) => Ok(ordinary_user::become_on(engine.pid().context("the engine has ended")?)),
            None => Ok(Vec::new()),
        }
    }

    fn environment(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut environment = vec![
            ("SANDBOX_E2E_ENGINE".to_owned(), self.socket.url().into()),
            ("SANDBOX_E2E_PODMAN".to_owned(), self.major.clone().into()),
        ];
        if let Some(pair) = &self.pair {
            environment.push(("SANDBOX_E2E_HOST_NETNS".to_owned(), Pair::path(&pair.host)));
            environment.push(("SANDBOX_E2E_WORLD_NETNS".to_owned(), Pair::path(&pair.world)));
        }
        if self.user.is_some() {
            environment.push(("SANDBOX_E2E_HOST_SERVICE".to_owned(), HOST_SERVICE.to_string().into()));
            let target = cargo::host_target()?.to_uppercase().replace('-', "_");
            let prefix = self.user_prefix()?.join(" ");
            environment.push((format!("CARGO_TARGET_{target}_RUNNER"), prefix.into()));
        }
        Ok(environment)
    }
}

/// Runs the tests of `filter`, and then the failed ones again, one at a time.
fn with_second_try(
    place: &str,
    filter: &str,
    threads: usize,
    run: impl Fn(&str, usize) -> Result<Vec<Case>>,
) -> Result<Results> {
    let mut results = Results::default();
    let (again, settled): (Vec<_>, Vec<_>) =
        run(filter, threads)?.into_iter().partition(|case| case.failure.is_some() && !case.is_breach());
    results.add(place, settled);
    if again.is_empty() {
        return Ok(results);
    }
    if again.len() > SECOND_TRIES {
        results.add(place, again);
        return Ok(results);
    }
    say(format!("{} failed{place}; each runs again, alone", again.len()));
    let names: Vec<String> = again.iter().map(|case| format!("test(={})", case.name)).collect();
    let second = run(&format!("({filter}) & ({})", names.join(" | ")), 1)?;
    if second.len() != again.len() {
        bail!("{} tests had to run again, but {} did", again.len(), second.len());
    }
    results.add_second_try(place, second);
    Ok(results)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn case(name: &str, failure: Option<&str>) -> Case {
        Case { name: name.into(), binary: "e2e".into(), seconds: 1.0, failure: failure.map(str::to_owned) }
    }

    #[test]
    fn failed_test_runs_again_alone_but_a_breach_does_not() {
        let asked = RefCell::new(Vec::new());
        let results = with_second_try("", "all()", 3, |filter, threads| {
            asked.borrow_mut().push(format!("{threads}: {filter}"));
            Ok(match threads {
                1 => vec![case("unlucky", None)],
                _ => vec![
                    case("good", None),
                    case("unlucky", Some("x")),
                    case("broken", Some("breach: it went out")),
                ],
            })
        })
        .unwrap();
        assert_eq!(asked.into_inner(), ["3: all()", "1: (all()) & (test(=unlucky))"]);
        assert_eq!(results.line(), "2 passed, 1 failed");
        assert_eq!(results.flaky(), ["e2e unlucky"]);
    }

    #[test]
    fn tests_with_many_failures_do_not_run_again() {
        let results = with_second_try("", "all()", 3, |_, threads| {
            assert_eq!(threads, 3);
            Ok((0..=SECOND_TRIES).map(|number| case(&number.to_string(), Some("x"))).collect())
        })
        .unwrap();
        assert_eq!(results.line(), "0 passed, 11 failed");
    }
}
