//! The commits of a pack, as far as they are needed: what they look like, for deltas, and what
//! their parents are.
//!
//! Both are bounded. What there is no room for is as if it were not in the pack.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::commit::{Format, Id};

/// Bytes of a commit at most.
pub(super) const COMMIT: usize = 256 * 1024;
/// Bytes of the commits that deltas may be made of; the oldest go first.
const CONTENTS: usize = 1024 * 1024;
/// Bytes of ids and what holds them: some 20,000 commits.
const GRAPH: usize = 3 * 1024 * 1024;
/// Bytes of all that one push may take up.
pub(super) const MEMORY: usize = CONTENTS + GRAPH + 4 * COMMIT;
/// What an entry takes up, beside its parents.
const ENTRY: usize = 96;

pub(super) struct Ancestry {
    format: Format,
    parents: HashMap<Id, Box<[Id]>>,
    graph_bytes: usize,
    /// By their places in the pack.
    contents: BTreeMap<u64, (Id, Box<[u8]>)>,
    places: HashMap<Id, u64>,
    content_bytes: usize,
}

impl Ancestry {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            parents: HashMap::new(),
            graph_bytes: 0,
            contents: BTreeMap::new(),
            places: HashMap::new(),
            content_bytes: 0,
        }
    }

    /// Nothing comes before this commit, whatever it says itself.
    pub(super) fn cut(&mut self, commit: Id) {
        self.parents.insert(commit, Box::default());
        self.graph_bytes += ENTRY;
    }

    /// There is a commit at this place of the pack.
    pub(super) fn add(&mut self, place: u64, commit: Vec<u8>) {
        let Some(id) = self.format.id_of(&commit) else { return };
        if let Some(parents) = self.format.parents(&commit) {
            let bytes = ENTRY + std::mem::size_of_val(&*parents);
            if self.graph_bytes + bytes <= GRAPH
                && let Entry::Vacant(entry) = self.parents.entry(id)
            {
                entry.insert(parents);
                self.graph_bytes += bytes;
            }
        }
        self.content_bytes += ENTRY + commit.len();
        self.places.insert(id, place);
        self.contents.insert(place, (id, commit.into()));
        while self.content_bytes > CONTENTS
            && let Some((place, (id, commit))) = self.contents.pop_first()
        {
            self.content_bytes -= ENTRY + commit.len();
            if self.places.get(&id) == Some(&place) {
                self.places.remove(&id);
            }
        }
    }

    /// The commit at this place.
    pub(super) fn at(&self, place: u64) -> Option<&[u8]> {
        self.contents.get(&place).map(|(_, commit)| &**commit)
    }

    /// The commit of this id.
    pub(super) fn of(&self, id: &Id) -> Option<&[u8]> {
        self.at(*self.places.get(id)?)
    }

    /// Whether `new` has `old` among its ancestors, or is it.
    pub(super) fn reaches(&self, new: &Id, old: &Id) -> bool {
        let mut seen = HashSet::from([new]);
        let mut next = vec![new];
        while let Some(id) = next.pop() {
            if id == old {
                return true;
            }
            let parents = self.parents.get(id).into_iter().flatten();
            next.extend(parents.filter(|parent| seen.insert(parent)));
        }
        false
    }
}
