//! The printed report, in milliseconds.

use benchmarks::Spread;
use serde::Serialize;

/// All measurements.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// A bare container on the engine's default network, until it was removed.
    pub(crate) bare_ms: Spread,
    /// The same, until its exit code was known.
    pub(crate) bare_exited_ms: Spread,
    /// Processor time of its whole run, on the whole machine.
    pub(crate) bare_processor_ms: Spread,
    /// Processor time of `sandbox run -- true` and of the removal after it, on the whole machine.
    pub(crate) command_processor_ms: Spread,
    /// Several commands at once, at the prompt.
    pub(crate) at_once: Vec<AtOnceTimes>,
    /// Many commands of one process at once, through the engine's API.
    pub(crate) in_flight: InFlight,
    /// A command in a running container, through the engine's API, until its exit code was known.
    pub(crate) bare_exec_ms: Spread,
    /// A command of an executor after the first.
    pub(crate) executor_ms: Spread,
    /// The library on a started sandbox, until the exit code was known.
    pub(crate) library_ms: Spread,
    /// The same with a proxy that was started ahead.
    pub(crate) library_warm_ms: Spread,
    /// `sandbox run -t -- bash`.
    pub(crate) shell: ShellTimes,
    /// `podman run -it IMAGE bash`.
    pub(crate) bare_shell: ShellTimes,
    /// The library on an unprotected git work tree of 10,000 files, until the process was started.
    pub(crate) tree_plain_ms: Spread,
    /// The same with the tree protected.
    pub(crate) tree_protected_ms: Spread,
    /// The same with a fresh copy of the tree.
    pub(crate) tree_copy_ms: Spread,
    /// The library on an unprotected git work tree of 100,000 files, until the process was started.
    pub(crate) large_plain_ms: Spread,
    /// Additional time with a copy, including the apply of one changed file.
    pub(crate) large_more_ms: Spread,
    /// The apply alone.
    pub(crate) large_apply_ms: Spread,
    /// The apply of 50,000 new files.
    pub(crate) many_apply_ms: Spread,
    /// `cp -a` of the same files.
    pub(crate) many_copied_ms: Spread,
    /// Days of work in everyday projects.
    pub(crate) days: Vec<Day>,
    /// The phases of the library's time.
    pub(crate) steps: Vec<Step>,
}

/// `true` several times at once, until the last command ended.
#[derive(Debug, Serialize)]
pub(crate) struct AtOnceTimes {
    pub(crate) count: u32,
    /// `podman run --rm`, on the engine's network.
    pub(crate) podman_ms: Spread,
    /// `podman run --rm --network none`.
    pub(crate) without_network_ms: Spread,
    /// `sandbox run`, which leaves the removal to later unless four others are removing.
    pub(crate) sandboxed_ms: Spread,
}

/// `true` many times at once, in bare containers and with the library.
#[derive(Debug, Serialize)]
pub(crate) struct InFlight {
    pub(crate) count: u32,
    pub(crate) bare: InFlightSide,
    pub(crate) sandboxed: InFlightSide,
}

/// Medians over the rounds.
#[derive(Debug, Serialize)]
pub(crate) struct InFlightSide {
    /// Until the last was removed.
    pub(crate) per_second: f64,
    /// To the exit code.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// A shell on a terminal.
#[derive(Debug, Serialize)]
pub(crate) struct ShellTimes {
    /// From the start of the command to the prompt.
    pub(crate) prompt_ms: Spread,
    /// From a typed key to its echo.
    pub(crate) echo_us: Spread,
    /// `ps` while it runs.
    pub(crate) list_ms: Spread,
}

/// A point in time of an execution by the library.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Time since the request for the execution.
    pub(crate) at_ms: Spread,
}

/// A day of work in one kind of project.
#[derive(Debug, Serialize)]
pub(crate) struct Day {
    pub(crate) name: &'static str,
    /// In the tree itself, protected, until the exit code was known.
    pub(crate) direct_ms: Spread,
    /// In a copy of it, until that was applied and removed.
    pub(crate) copy_ms: Spread,
}
