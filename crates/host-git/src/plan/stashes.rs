//! Stashes, and changes that git set aside by itself.

use super::{Loss, MOVED, Next, Planner, short};
use crate::object_id::ObjectId;
use crate::ref_name::{RefName, Space};
use crate::report::{RefChange, RefOutcome};
use crate::stash::{self, Stash};

impl Planner<'_> {
    pub(super) fn stashes(&mut self) {
        let (start, host, task) = (&self.it.start.stash, &self.it.host.stash, &self.it.task.stash);
        let ids = |stashes: &[Stash]| stashes.iter().map(|stash| stash.id.clone()).collect::<Vec<_>>();
        // An import that was killed before it wrote their list has only the newest stash.
        let is_listed = host.first().is_none_or(|first| *first != Stash::bare(first.id.clone()));
        if ids(task) == ids(start) || (ids(task) == ids(host) && is_listed) {
            return;
        }
        let Some(name) = RefName::parse(b"refs/stash") else { return };
        let own = || task.iter().filter(|stash| !ids(start).contains(&stash.id));
        let is_odd = || own().any(|stash| self.it.odd_stashes.contains(&stash.id));
        let bad = task.iter().find_map(|stash| self.check(&stash.id, Space::Stash).err());
        let bad = bad.or_else(|| is_odd().then(|| "it has a commit that is not a stash".to_owned()));
        if let Some(why) = bad {
            return self.record(&name, RefOutcome::Stayed { why });
        }
        if !self.it.host.has_all_stashes || !self.it.task.has_all_stashes {
            // Writing the list would drop the others.
            let why = format!("there are more stashes than the {} that are imported", stash::MOST);
            let outcome = match task.first().filter(|stash| !ids(host).contains(&stash.id)) {
                Some(Stash { id, .. }) => self.keep(&name.with(&format!("/{}", short(id))), id, &why),
                None => RefOutcome::Stayed { why },
            };
            return self.record(&name, outcome);
        }
        let (old, new) =
            (host.first().map(|stash| stash.id.clone()), task.first().map(|stash| stash.id.clone()));
        // If both have the same stash on top, this is the continuation of an import.
        if ids(host) == ids(start) || (old.is_some() && old == new) {
            let gone: Vec<ObjectId> = ids(host).into_iter().filter(|id| !ids(task).contains(id)).collect();
            if old != new {
                self.update(&name, old, new, false);
                self.plan.losses.retain(|loss| loss.name != name);
            }
            let losses = gone.into_iter().map(|id| Loss {
                name: name.with(&format!("/{}", short(&id))),
                id,
                is_always: true,
            });
            self.plan.losses.extend(losses);
            self.plan.report.stashes = Some(task.len());
            // The task cannot change the time and the message of the host's own stashes.
            let known = |stash: &Stash| start.iter().find(|known| known.id == stash.id);
            let stashes = task.iter().map(|stash| known(stash).unwrap_or(stash).clone());
            self.plan.stashes = Some(stashes.collect());
            return self.record(&name, RefOutcome::Came);
        }
        let own = task.iter().filter(|stash| !ids(host).contains(&stash.id));
        let mut outcome = RefOutcome::Stayed { why: MOVED.to_owned() };
        for stash in own.cloned().collect::<Vec<_>>().iter().rev() {
            outcome = self.keep(&name.with(&format!("/{}", short(&stash.id))), &stash.id, MOVED);
        }
        self.record(&name, outcome);
    }

    /// Changes of files that git removed for a merge or a rebase that has not ended.
    pub(super) fn set_aside(&mut self) {
        for id in &self.it.task.set_aside {
            let Some(name) = RefName::parse(format!("refs/stash/{}", short(id)).as_bytes()) else { continue };
            let outcome = match self.check(id, Space::Stash) {
                Ok(()) => self.keep(&name, id, "git in the task set it aside"),
                Err(why) => RefOutcome::Stayed { why },
            };
            if let RefOutcome::Kept { name, .. } = &outcome {
                self.plan.set_aside.push(id.clone());
                self.plan.report.hints.push(format!(
                    "git in the task set changes aside for a merge or a rebase that it did not end: `git \
                     stash apply {name}` brings them back"
                ));
            }
            let new = Some(id.to_string());
            self.plan.report.refs.push(RefChange {
                name: name.to_string(),
                old: None,
                new,
                outcome,
                backup: None,
            });
        }
    }

    /// Git on the host would restore them a second time with its next commit.
    pub(super) fn take_back(&mut self) {
        let Some(id) = self.it.task.taken_back.clone().filter(|_| matches!(self.plan.operation, Next::Ends))
        else {
            return;
        };
        let Some(name) = RefName::parse(format!("refs/stash/{}", short(&id)).as_bytes()) else { return };
        self.plan.taken_back = Some(id.clone());
        let (old, outcome) = (Some(id.to_string()), RefOutcome::Came);
        self.plan.report.refs.push(RefChange {
            name: name.to_string(),
            old,
            new: None,
            outcome,
            backup: None,
        });
        self.plan.losses.push(Loss { name, id, is_always: true });
    }
}
