//! The texts that patterns are compared with.

use std::collections::HashMap;
use std::collections::HashSet;

use crate::git::is_forbidden_in_refs;
use crate::host_pattern::HostLanguage;
use crate::host_pattern::HostState;
use crate::path_pattern::PathLanguage;
use crate::path_pattern::PathState;
use crate::pattern::Language;

/// All host names but addresses and those that are compared one by one.
pub(super) struct Names {
    steps: HashMap<(usize, char), usize>,
    ends: HashSet<usize>,
}

impl Names {
    pub(super) fn except<'a>(known: impl Iterator<Item = &'a str>) -> Self {
        let mut names = Self { steps: HashMap::new(), ends: HashSet::new() };
        for name in known {
            let mut at = 0;
            for character in name.chars() {
                let next = names.steps.len() + 1;
                at = *names.steps.entry((at, character)).or_insert(next);
            }
            names.ends.insert(at);
        }
        names
    }
}

impl Language for Names {
    /// With the position in the known names, until the name differs from all of them.
    type State = (HostState, Option<usize>);

    fn start(&self) -> Self::State {
        (HostLanguage.start(), Some(0))
    }

    fn step(&self, (state, known): Self::State, next: char) -> Option<Self::State> {
        let known = known.and_then(|at| self.steps.get(&(at, next)).copied());
        Some((HostLanguage.step(state, next)?, known))
    }

    fn accepts(&self, (state, known): Self::State) -> bool {
        HostLanguage.accepts(state) && known.is_none_or(|at| !self.ends.contains(&at))
    }
}

/// Paths, decoded once, with queries. Further decodings are left out.
pub(super) struct Targets;

impl Language for Targets {
    type State = PathState;

    fn start(&self) -> PathState {
        PathLanguage.start()
    }

    fn step(&self, state: PathState, next: char) -> Option<PathState> {
        let refused = matches!(next, '\0'..=' ' | '#' | '\x7f');
        if state == PathState::Query && refused { None } else { PathLanguage.step(state, next) }
    }

    fn accepts(&self, state: PathState) -> bool {
        PathLanguage.accepts(state)
    }
}

/// Texts of the characters of refs.
pub(super) struct Refs;

impl Language for Refs {
    type State = ();

    fn start(&self) {}

    fn step(&self, (): (), next: char) -> Option<()> {
        (!u8::try_from(next).is_ok_and(is_forbidden_in_refs)).then_some(())
    }

    fn accepts(&self, (): ()) -> bool {
        true
    }
}
