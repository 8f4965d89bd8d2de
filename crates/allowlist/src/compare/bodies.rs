//! Bodies of pushes, one for each combination of the patterns of refs.

use std::collections::BTreeSet;
use std::collections::HashSet;
use std::ops::ControlFlow;

use super::comparison::ExampleBody;
use super::languages::Refs;
use super::side::Part;
use crate::body_check::Step;
use crate::decision::Decision;
use crate::git::GitRule;
use crate::git::RefPattern;
use crate::pattern::Effort;
use crate::pattern::Product;
use crate::pattern::Scope;
use crate::pattern::Sequence;

/// What decides whether git accepts a name, besides its characters.
const NAMES: [&str; 10] = ["refs/*", "*.", "*/", "*//*", "*/.*", "*..*", "*@{*", "*.lock", "*.lock/*", "?*"];

/// A body for each combination of the patterns of `rules`, as far as there is enough `effort`.
pub(super) fn of<'a>(rules: impl Iterator<Item = &'a GitRule>, effort: &Effort) -> Vec<ExampleBody> {
    let refs = rules.flat_map(|rule| &rule.push).map(RefPattern::as_str);
    let texts: BTreeSet<&str> = NAMES.into_iter().chain(refs).collect();
    let patterns: Vec<_> = texts.into_iter().map(|text| (Sequence::compile(text), Scope::Whole)).collect();
    let mut seen = HashSet::new();
    let mut bodies = vec![ExampleBody::Unreadable];
    if !effort.spend(Product::cost(&patterns)) {
        return bodies;
    }
    let single = ['\x7f', '~', '^', ':', '?', '*', '[', '\\'].map(|character| (character, character));
    let special = single.into_iter().chain([('\0', ' ')]);
    Product::new(&patterns, special).explore(&Refs, None, effort, |key, text| {
        if seen.insert(key.to_vec()) {
            let name = text();
            bodies.extend([
                ExampleBody::Update(name.clone()),
                ExampleBody::Force(name.clone()),
                ExampleBody::Delete(name),
            ]);
        }
        ControlFlow::Continue(())
    });
    bodies
}

impl Part {
    /// The position of the rule that allows a request with this body; with any that it allows, if
    /// there is none.
    pub(super) fn admits(&self, decision: &Decision, body: Option<&ExampleBody>) -> Option<usize> {
        let (Decision::NeedsBody(check), Some(body)) = (decision, body) else { return self.allows(decision) };
        if !check.is_of_push() {
            return self.allows(decision);
        }
        let free = matches!(body, ExampleBody::Force(_));
        match check.clone().advance(&bytes(body), true) {
            Ok(Step::Allow(admitted)) if !free || admitted.fast_forwards.is_none() => {
                self.position(&admitted.rule)
            }
            _ => None,
        }
    }
}

/// The body as git sends it.
fn bytes(body: &ExampleBody) -> Vec<u8> {
    let (name, old, new) = match body {
        ExampleBody::Update(name) => (name, "0", "1"),
        ExampleBody::Force(name) => (name, "1", "2"),
        ExampleBody::Delete(name) => (name, "1", "0"),
        ExampleBody::Unreadable => return b"unreadable".to_vec(),
    };
    let command = format!("{} {} {name}\0", old.repeat(40), new.repeat(40));
    format!("{:04x}{command}0000", command.len() + 4).into_bytes()
}
