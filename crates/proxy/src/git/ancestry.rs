//! The parts of a pack's commits that are needed: their contents, for deltas, and their parents.
//!
//! Both are bounded. A commit for which there is no room counts as missing from the pack.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::commit::{Format, Id};

/// The maximum length of a commit in bytes.
pub(super) const COMMIT: usize = 256 * 1024;
/// Bytes of the commits that deltas may be based on; the oldest are dropped first.
const CONTENTS: usize = 1024 * 1024;
/// Bytes of ids and their containers: some 20,000 commits.
const GRAPH: usize = 3 * 1024 * 1024;
/// The maximum number of bytes that one push may occupy.
pub(super) const MEMORY: usize = CONTENTS + GRAPH + 4 * COMMIT;
/// The size of an entry, without its parents.
const ENTRY: usize = 96;

pub(super) struct Ancestry {
    format: Format,
    parents: HashMap<Id, Box<[Id]>>,
    graph_bytes: usize,
    /// The commits by their places in the pack.
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

    /// Treats this commit as one without parents, regardless of its content.
    pub(super) fn cut(&mut self, commit: Id) {
        self.parents.insert(commit, Box::default());
        self.graph_bytes += ENTRY;
    }

    /// Adds the commit at this place of the pack.
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
    pub(super) fn by_id(&self, id: &Id) -> Option<&[u8]> {
        self.at(*self.places.get(id)?)
    }

    /// Whether `new` is `old`, or has it among its ancestors.
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
