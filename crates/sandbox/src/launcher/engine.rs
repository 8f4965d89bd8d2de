//! The scripted engine: its scripts, and what it was asked for.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::script::Script;
use crate::container::{ContainerError, LaunchPlan};
use crate::spec::ContainerEnv;
use sandbox_podman::EngineError;

/// An engine that launches nothing: each program does what the next [`Script`] says, in the order
/// in which they are launched. It has every image. A clone is the same engine, to be scripted and
/// looked at while the sandbox has it.
///
/// A program is what was asked for: Claude Code, a command, a run, or a command or file of an
/// executor. A container of an executor is none.
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

/// A program that a [`ScriptedEngine`] was asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScriptedProgram {
    /// What was launched for it; for a program of an executor, its container.
    pub plan: LaunchPlan,
    /// The program and its arguments. A line for a shell is `sh`, `-c` and the line; of an
    /// executor's files, `write` or `read` and the path.
    pub command: Vec<String>,
    /// The variables that are set over the image's.
    pub env: ContainerEnv,
    /// `None`: the image's.
    pub working_dir: Option<String>,
    /// What it has read so far.
    pub input: Vec<u8>,
}

impl ScriptedEngine {
    /// An engine without scripts: whatever is launched is an error.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what the next program does for which there is no script yet.
    #[expect(clippy::must_use_candidate, reason = "what it returns is for the next call of it")]
    pub fn then(&self, script: Script) -> &Self {
        self.state().scripts.push_back(script);
        self
    }

    /// Takes the image `name` away.
    pub fn without_image(&self, name: impl Into<String>) -> &Self {
        self.state().absent.insert(name.into());
        self
    }

    /// What was launched so far, first things first, with what could not be.
    #[must_use]
    pub fn programs(&self) -> Vec<ScriptedProgram> {
        self.state().programs.clone()
    }

    /// How many scripts are left. A test that ends with more than 0 has not launched what it
    /// thinks.
    #[must_use]
    pub fn scripts_left(&self) -> usize {
        self.state().scripts.len()
    }

    pub(super) fn has_image(&self, name: &str) -> bool {
        !self.state().absent.contains(name)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the script of `program`, and gives its number.
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
                "nothing is scripted for program {number}, `{}`; say what it does with `ScriptedEngine::then`",
                command.escape_debug()
            );
            EngineError::refused("launch", &plan.name, problem)
        };
        Ok((number, script.ok_or_else(unforeseen)?.begin(&plan)?))
    }

    /// Remembers what a program has read.
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

    /// Of an executor whose container is `plan`.
    pub(super) fn executed(plan: &LaunchPlan, command: Vec<String>) -> Self {
        Self { command, ..Self::of(plan) }
    }
}
