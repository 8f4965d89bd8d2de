//! Storms of an engine that is slow, cut off, answers with nonsense, fails, is stopped or killed.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::faulty::{Fault, Faulty};
use super::field::{Field, Random, output_within};
use super::inventory::Inventory;
use super::report::{Report, spread};
use crate::process::{self, command};

/// The time limit of a command on a broken engine: more than the longest deadline of a call.
const TIMEOUT: Duration = Duration::from_mins(5);
const KILLED: &str = "Killed";
/// The minimum number of connections of a run: each has a fault in turn.
const CALLS: u32 = 30;

/// In two thirds of the rounds, one call has a fault, each fault and call in turn; in one third,
/// the service is stopped or killed.
pub(crate) fn storm(field: &Field, rounds: u32, seed: u64) -> Result<Report> {
    let mut report = Report::default();
    for _ in 0..2 {
        if let Some(problem) = field.next_run()? {
            bail!("a run without a storm failed: {problem}");
        }
    }
    let mut before = Inventory::settled(field)?;
    let (mut results, mut times) = (BTreeMap::<String, u32>::new(), Vec::new());
    let mut random = Random::new(seed);
    for round in 0..rounds {
        let begun = Instant::now();
        let (what, output) = if round % 3 == 2 {
            unwell(field, round / 3, &mut random)?
        } else {
            let number = round - round / 3;
            faulty(field, number)?
        };
        times.push(begun.elapsed().as_secs_f64());
        let verdict = verdict(&output);
        let kind = what.split(':').next().unwrap_or(&what).to_owned();
        *results.entry(format!("{kind}: {verdict}")).or_default() += 1;
        if verdict.starts_with("BAD") {
            let text = String::from_utf8_lossy(&output.stderr);
            report.problem(format!("{what}: {verdict}: {}", text.trim()));
        }
        if let Some(problem) = field.next_run()? {
            report.problem(format!("the run after {what} failed: {problem}"));
        }
        if what.starts_with(KILLED) {
            before.excuse(&Inventory::settled(field)?);
        }
    }
    report.row("rounds", rounds.to_string());
    for (result, count) in results {
        report.row(result, count.to_string());
    }
    report.row("a run in the storm", spread(times));
    Inventory::settled(field)?;
    if let Some(problem) = field.next_run()? {
        report.problem(format!("the last run failed: {problem}"));
    }
    Inventory::settled(field)?.compare(&before, &mut report);
    Ok(report)
}

/// A run must succeed with its complete output, or fail with a reason.
fn verdict(output: &Output) -> String {
    let whole = output.stdout == b"whole\n";
    match output.status.code() {
        Some(0) if whole => "succeeds".to_owned(),
        Some(125) if output.stderr.starts_with(b"error: ") || !output.stderr.is_empty() => {
            "error 125".to_owned()
        }
        code => format!("BAD: exit code {code:?}, {} bytes of output", output.stdout.len()),
    }
}

/// Runs with a fault in one call.
fn faulty(field: &Field, number: u32) -> Result<(String, Output)> {
    let fault = Fault::number(number);
    let at = number / 4 % CALLS;
    let socket = Faulty::listen(field.socket_at("faulty.sock"), field.socket.path(), fault, at)?;
    let mut run = field.sandbox_on(socket.path(), &["run", "--", "echo", "whole"]);
    let output = output_within(run.stdout(Stdio::piped()).stderr(Stdio::piped()), TIMEOUT)?;
    let what = if socket.seen() > at { format!("{fault:?}") } else { format!("{fault:?} after the end") };
    Ok((format!("{what}: call {at}"), output))
}

/// Stops the service for some seconds, or kills it, at a random moment of a run.
fn unwell(field: &Field, number: u32, random: &mut Random) -> Result<(String, Output)> {
    let mut service = Service::start(field)?;
    let run = field
        .sandbox_on(&service.socket, &["run", "--", "bash", "-c", "sleep 1; echo whole"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let moment = Duration::from_millis(random.below(2500));
    // tidy: sleep: the moment of the fault.
    std::thread::sleep(moment);
    let killed = number.is_multiple_of(2);
    if killed {
        service.signal("KILL");
    } else {
        service.signal("STOP");
        // tidy: sleep: as long as it is stopped.
        std::thread::sleep(Duration::from_secs(5));
        service.signal("CONT");
    }
    let output = run.wait_with_output()?;
    drop(service.child.try_wait());
    let what = if killed { KILLED } else { "Stopped" };
    Ok((format!("{what}: after {} ms", moment.as_millis()), output))
}

/// A second service on the engine's storage, which ends when this value is dropped.
struct Service {
    child: Child,
    socket: PathBuf,
}

impl Service {
    fn start(field: &Field) -> Result<Self> {
        let socket = field.socket_at("storm.sock");
        drop(std::fs::remove_file(&socket));
        let mut service = command(&field.client, ["system", "service", "--time=0"]);
        service
            .arg(format!("unix://{}", socket.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = service.spawn()?;
        let service = Self { child, socket };
        let deadline = Instant::now() + Duration::from_mins(1);
        while UnixStream::connect(&service.socket).is_err() {
            if Instant::now() > deadline {
                bail!("the second service did not start to listen");
            }
            // tidy: sleep: the engine does not report when its socket exists.
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(service)
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        drop(process::run_quietly(&mut command("kill", [&format!("-{name}"), &id])));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
