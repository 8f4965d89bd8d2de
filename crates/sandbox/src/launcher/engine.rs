//! The scripted engine: its scripts, and the programs it launched.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::script::Script;
use crate::container::{ContainerError, LaunchPlan};
use crate::spec::ContainerEnv;
use sandbox_podman::EngineError;

/// An engine that launches nothing: each program follows the next [`Script`], in the order of the
/// launches. It has every image. A clone is the same engine, to add scripts and inspect programs
/// while the sandbox uses it.
///
/// A program is what the caller requested: Claude Code, a command, a run, or a command or file of
/// an executor. The container of an executor is not a program.
#[derive(Debug, Clone, Default)]
pub struct ScriptedEngine(
    /// Locked for single operations only.
    Arc<Mutex<State>>,
);

#[derive(Debug, Default)]
struct State {
    scripts: VecDeque<Script>,
    absent: BTreeSet<String>,
    programs: Vec<ScriptedProgram>,
}

/// A program that a [`ScriptedEngine`] launched.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScriptedProgram {
    /// The plan of its launch; for a program of an executor, that of its container.
    pub plan: LaunchPlan,
    /// The program and its arguments. A line for a shell is `sh`, `-c` and the line; for files of
    /// an executor it is `write` or `read` and the path.
    pub command: Vec<String>,
    /// The variables that are added to the image's.
    pub env: ContainerEnv,
    /// `None`: the image's.
    pub working_dir: Option<String>,
    /// The input that it has read so far.
    pub input: Vec<u8>,
}

impl ScriptedEngine {
    /// An engine without scripts: every launch is an error.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the script of the next program without one.
    #[expect(clippy::must_use_candidate, reason = "the result is only for chained calls")]
    pub fn then(&self, script: Script) -> &Self {
        self.state().scripts.push_back(script);
        self
    }

    /// Removes the image `name`.
    pub fn without_image(&self, name: impl Into<String>) -> &Self {
        self.state().absent.insert(name.into());
        self
    }

    /// The programs that were launched so far, in order, including those that failed.
    #[must_use]
    pub fn programs(&self) -> Vec<ScriptedProgram> {
        self.state().programs.clone()
    }

    /// The number of unused scripts. A test that ends with more than 0 has launched fewer programs
    /// than it expects.
    #[must_use]
    pub fn scripts_left(&self) -> usize {
        self.state().scripts.len()
    }

    pub(super) fn has_image(&self, name: &str) -> bool {
        !self.state().absent.contains(name)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Code that holds the lock cannot panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the script of `program`, and returns its number.
    pub(super) fn begin(&self, program: ScriptedProgram) -> Result<(usize, Script), ContainerError> {
        let (plan, command) = (program.plan.clone(), program.command.join(" "));
        let mut state = self.state();
        let number = state.programs.len();
        state.programs.push(program);
        let script = state.scripts.pop_front();
        drop(state);
        let unforeseen = || {
            let number = number + 1;
            let problem = format!(
                "no script for program {number}, `{}`; add one with `ScriptedEngine::then`",
                command.escape_debug()
            );
            EngineError::refused("launch", &plan.name, problem)
        };
        Ok((number, script.ok_or_else(unforeseen)?.begin(&plan)?))
    }

    /// Records the input that a program has read.
    pub(super) fn keep_input(&self, number: usize, bytes: &[u8]) {
        if let Some(program) = self.state().programs.get_mut(number) {
            program.input.extend_from_slice(bytes);
        }
    }
}

impl ScriptedProgram {
    pub(super) fn of(plan: &LaunchPlan) -> Self {
        Self {
            plan: plan.clone(),
            command: plan.command.clone(),
            env: plan.env.clone(),
            working_dir: plan.working_dir.clone(),
            input: Vec::new(),
        }
    }

    /// A program of an executor whose container is `plan`.
    pub(super) fn executed(plan: &LaunchPlan, command: Vec<String>) -> Self {
        Self { command, ..Self::of(plan) }
    }
}
