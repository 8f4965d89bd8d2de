//! The state of a repository: the host's at the start of a task and now, and the task's view at its
//! end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::{Refusal, Setting};
use crate::index::Index;
use crate::object_id::{Format, ObjectId};
use crate::operation::{self, Operation};
use crate::ref_name::{RefName, Space};
use crate::refs::{Odd, RefValue, Refs, Table};
use crate::repository::{HostRepository, OWN_FILE, is_reftable};
use crate::settings::{Digests, Settings};
use crate::stash::{self, Stash};
use crate::view::{Found, View};
use crate::{Error, Limits, config, index};

/// The refs, `HEAD`, index and settings of the host's repository when a task began.
///
/// It is stored with the run's record, so that an import can be made after a crash. It holds
/// digests of settings, never their values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub(crate) format: Format,
    pub(crate) refs: Refs,
    /// Entries below `refs` that are not refs: paths in the form of [`odd_name`].
    #[serde(default)]
    pub(crate) odd: BTreeSet<String>,
    /// Whether it was read from the host, and is not only the base of comparisons.
    #[serde(default)]
    pub(crate) is_of_host: bool,
    pub(crate) head: Option<RefValue>,
    /// The index's digest.
    pub(crate) index: Option<String>,
    pub(crate) stash: Vec<Stash>,
    pub(crate) operation: Option<Operation>,
    /// Changes that git had set aside for a merge or a rebase.
    #[serde(default)]
    pub(crate) set_aside: Vec<ObjectId>,
    pub(crate) settings: Digests,
}

/// A part of a repository's state.
#[derive(Debug)]
pub(crate) enum Part<T> {
    /// Unchanged since the start.
    Same,
    Here(T),
    /// Not in the form that git writes.
    Bad(&'static str),
}

/// An index, of which usually only the digest matters.
#[derive(Debug)]
pub(crate) struct IndexText {
    pub(crate) text: Vec<u8>,
    pub(crate) digest: String,
}

/// The state of a repository.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) refs: Refs,
    pub(crate) odd: Odd,
    pub(crate) head: Part<RefValue>,
    pub(crate) index: Part<IndexText>,
    pub(crate) stash: Vec<Stash>,
    /// Whether `stash` is the complete list.
    pub(crate) has_all_stashes: bool,
    pub(crate) operation: Part<Option<Operation>>,
    /// Changes that git set aside for a merge or a rebase, and the host's changes that it restored.
    pub(crate) set_aside: Vec<ObjectId>,
    pub(crate) taken_back: Option<ObjectId>,
    /// The file of an operation that is not imported.
    pub(crate) other_operation: Option<&'static str>,
    pub(crate) settings: Part<Settings>,
}

impl Snapshot {
    /// Reads the host's repository before a task has it.
    ///
    /// # Errors
    ///
    /// If it exceeds the memory limits of a program.
    pub fn take(host: &HostRepository) -> Result<Self, Error> {
        Self::of(host, host.view())
    }

    /// The snapshot of the host's repository as `view` shows it; `host` itself supplies the parts
    /// that `view` lacks.
    pub(crate) fn of(host: &HostRepository, view: &View) -> Result<Self, Error> {
        let format = host.format();
        let State { refs, odd, head, stash, operation, .. } =
            State::read(view, host, &Self::empty(format), &unlimited())?;
        Ok(Self {
            format,
            is_of_host: true,
            refs,
            odd: odd.iter().map(|(path, _)| odd_name(path)).collect(),
            head: head.here(),
            index: index(&view.read(&host.own("index"), OWN_FILE), format).here().map(|index| index.digest),
            stash,
            operation: operation.here().flatten(),
            set_aside: operation::set_aside(host.view(), &host.own(""), format),
            settings: settings(host.view(), host, &unlimited())?
                .here()
                .map(|all| all.digests())
                .unwrap_or_default(),
        })
    }

    /// The paths whose index entries in `view` differ from the host's current ones, if the index in
    /// `view` is not the one of the start; `None` if one of the two is not supported.
    #[must_use]
    pub fn recorded(&self, host: &HostRepository, view: &View) -> Option<BTreeSet<PathBuf>> {
        let path = host.own("index");
        let (now, before) =
            (view.read(&path, Limits::default().file_bytes), host.view().read(&path, OWN_FILE));
        if now == Found::Same || now == before {
            return Some(BTreeSet::new());
        }
        let now = index(&now, self.format).here()?;
        if self.index.as_ref() == Some(&now.digest) {
            return Some(BTreeSet::new());
        }
        let before = index(&before, self.format).here()?;
        Some(now.parse(self.format).ok()?.differing(&before.parse(self.format).ok()?))
    }

    fn empty(format: Format) -> Self {
        let (refs, settings) = (Refs::default(), Digests::new());
        Self {
            format,
            refs,
            odd: BTreeSet::new(),
            is_of_host: false,
            head: None,
            index: None,
            stash: Vec::new(),
            operation: None,
            set_aside: Vec::new(),
            settings,
        }
    }
}

impl IndexText {
    pub(crate) fn parse(&self, format: Format) -> Result<Index, &'static str> {
        if self.text.is_empty() { Ok(Index::default()) } else { Index::parse(&self.text, format) }
    }
}

impl<T> Part<T> {
    pub(crate) fn here(self) -> Option<T> {
        match self {
            Self::Here(what) => Some(what),
            Self::Same | Self::Bad(_) => None,
        }
    }
}

impl State {
    /// The current state of the host's repository; its index only if `with_index` is set.
    pub(crate) fn of_host(host: &HostRepository, with_index: bool) -> Result<Self, Error> {
        let mut state = Self::read(host.view(), host, &Snapshot::empty(host.format()), &unlimited())?;
        if with_index {
            state.index = index(&host.view().read(&host.own("index"), OWN_FILE), host.format());
        }
        Ok(state)
    }

    /// Reads the index of a task's view. An index that equals the host's byte for byte is
    /// unchanged.
    pub(crate) fn with_index(mut self, view: &View, host: &HostRepository, limits: &Limits) -> Self {
        let read = |view: &View| view.read(&host.own("index"), limits.file_bytes);
        let now = read(view);
        if !matches!(now, Found::Same) && now != read(host.view()) {
            self.index = index(&now, host.format());
        }
        self
    }

    /// The state of a task's view, except for the index. Files that it lacks are unchanged since
    /// the start.
    pub(crate) fn read(
        view: &View,
        host: &HostRepository,
        start: &Snapshot,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let format = host.format();
        let read = |path: &Path| view.read(path, limits.file_bytes);
        let (refs, odd) = Refs::read(view, host.view(), &start.refs, format, limits.file_bytes, limits.refs)?;
        let (stash, has_all_stashes) = stashes(view, &start.stash, &refs.table(), format);
        let own = host.own("");
        let hosts = operation::set_aside(host.view(), &own, format);
        let mut set_aside = operation::set_aside(view, &own, format);
        set_aside.retain(|id| !hosts.contains(id) && !start.set_aside.contains(id));
        Ok(Self {
            head: match head(&read(&host.own("HEAD")), format) {
                // The host's own was not supported either.
                Part::Bad(_) if start.is_of_host && start.head.is_none() => Part::Same,
                head => head,
            },
            index: Part::Same,
            operation: Operation::read(view, &own, start.operation.as_ref(), format)
                .map_or_else(Part::Bad, Part::Here),
            other_operation: operation::other(view, &own),
            set_aside,
            taken_back: operation::taken_back(view, host.view(), &own, format),
            refs,
            odd,
            stash,
            has_all_stashes,
            settings: settings(view, host, limits)?,
        })
    }
}

/// A path as text, for any bytes.
pub(crate) fn odd_name(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().escape_ascii().to_string()
}

/// The commit that `head` refers to, resolved by `table`.
pub(crate) fn commit<'a>(head: Option<&'a RefValue>, table: &'a Table) -> Option<&'a ObjectId> {
    match head? {
        RefValue::Object(id) => Some(id),
        RefValue::Symbolic(name) => table.get(name)?.object(),
    }
}

/// The settings of `view`.
fn settings(view: &View, host: &HostRepository, limits: &Limits) -> Result<Part<Settings>, Error> {
    let config = Path::new("config");
    Ok(match view.read(config, limits.file_bytes) {
        Found::Same => Part::Same,
        Found::Absent => Part::Here(Settings::default()),
        Found::Odd(why) => Part::Bad(why),
        Found::Here(text) => match of_config(&text, limits) {
            Ok(settings) if is_reftable(&settings) => {
                let problem = "now keeps its refs in a reftable, which is not supported yet";
                return Err(Error::Unsupported { path: view.path().to_owned(), problem });
            }
            Ok(settings) => Part::Here(Settings::of(&settings)),
            // The host's own configuration may be this large, and is in a copy too.
            Err(_) if host.view().read(config, limits.file_bytes) == Found::Here(text) => Part::Same,
            Err(why) => Part::Bad(why),
        },
    })
}

/// Limits for the host's own files.
fn unlimited() -> Limits {
    Limits {
        refs: u64::MAX,
        file_bytes: OWN_FILE,
        config_bytes: OWN_FILE,
        settings: usize::MAX,
        ..Limits::default()
    }
}

/// The settings in `text`, or the reason for refusing them.
fn of_config(text: &[u8], limits: &Limits) -> Result<Vec<Setting>, &'static str> {
    if text.len() as u64 > limits.config_bytes {
        return Err("it is too large");
    }
    // The names of settings, of which reports have copies, repeat that of their section.
    let names = usize::try_from(limits.config_bytes.saturating_mul(8)).unwrap_or(usize::MAX);
    config::settings_within(text, limits.settings, names).map_err(|refusal| match refusal {
        Refusal::Broken => "git itself cannot read it",
        Refusal::TooMany => "it has too many settings",
    })
}

fn head(found: &Found<Vec<u8>>, format: Format) -> Part<RefValue> {
    let text = match found {
        Found::Same => return Part::Same,
        Found::Absent => return Part::Bad("there is none"),
        Found::Odd(why) => return Part::Bad(why),
        Found::Here(text) => text,
    };
    let is_place = |value: &RefValue| match value {
        RefValue::Object(_) => true,
        RefValue::Symbolic(name) => name.space() == Some(Space::Branch),
    };
    RefValue::parse(text, format)
        .filter(is_place)
        .map_or(Part::Bad("it names neither a branch nor a commit"), Part::Here)
}

fn index(found: &Found<Vec<u8>>, format: Format) -> Part<IndexText> {
    match found {
        Found::Same => Part::Same,
        Found::Absent => Part::Here(IndexText { text: Vec::new(), digest: index::digest_of_none() }),
        Found::Odd(why) => Part::Bad(why),
        Found::Here(text) => match index::digest(text, format) {
            Ok(digest) => Part::Here(IndexText { text: text.clone(), digest }),
            Err(why) => Part::Bad(why),
        },
    }
}

/// The stashes, and whether the list is complete.
fn stashes(view: &View, base: &[Stash], table: &Table, format: Format) -> (Vec<Stash>, bool) {
    let newest = RefName::parse(b"refs/stash").and_then(|name| table.get(&name)?.object());
    let Some(newest) = newest else {
        return (Vec::new(), true);
    };
    let (log, is_whole) = match view.read(Path::new("logs/refs/stash"), 1 << 20) {
        Found::Same => (base.to_vec(), true),
        // A loss of power leaves the log like this.
        Found::Here(text) if text.is_empty() => (base.to_vec(), true),
        Found::Here(text) => stash::parse(&text, format),
        Found::Absent => (Vec::new(), true),
        Found::Odd(_) => (Vec::new(), false),
    };
    // The ref is authoritative: a log that ends at another commit is not its log.
    if log.first().is_some_and(|stash| stash.id == *newest) {
        (log, is_whole)
    } else {
        let is_whole = is_whole && log.is_empty();
        (vec![Stash::bare(newest.clone())], is_whole)
    }
}
