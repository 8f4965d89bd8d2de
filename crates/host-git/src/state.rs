//! What a repository says: the host's at the start of a task and now, and the task's view of it at its end.

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
/// It is kept where the run is recorded, so that an import can be made after a crash. It holds no values of settings, only digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub(crate) format: Format,
    pub(crate) refs: Refs,
    /// What is below `refs`, and is none: paths as [`odd_name`] has them.
    #[serde(default)]
    pub(crate) odd: BTreeSet<String>,
    /// Whether it was read, and is not only what everything else is compared with.
    #[serde(default)]
    pub(crate) is_of_host: bool,
    pub(crate) head: Option<RefValue>,
    /// The index's digest.
    pub(crate) index: Option<String>,
    pub(crate) stash: Vec<Stash>,
    pub(crate) operation: Option<Operation>,
    /// What git had set aside for a merge or a rebase.
    #[serde(default)]
    pub(crate) set_aside: Vec<ObjectId>,
    pub(crate) settings: Digests,
}

/// A part of a repository.
#[derive(Debug)]
pub(crate) enum Part<T> {
    /// As it was at the start.
    Same,
    Here(T),
    /// Not as git writes it.
    Bad(&'static str),
}

/// An index, of which most often only the digest matters.
#[derive(Debug)]
pub(crate) struct IndexText {
    pub(crate) text: Vec<u8>,
    pub(crate) digest: String,
}

/// What a repository says.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) refs: Refs,
    pub(crate) odd: Odd,
    pub(crate) head: Part<RefValue>,
    pub(crate) index: Part<IndexText>,
    pub(crate) stash: Vec<Stash>,
    /// Whether these are all stashes that there are.
    pub(crate) has_all_stashes: bool,
    pub(crate) operation: Part<Option<Operation>>,
    /// What git set aside for a merge or a rebase, and what it took back of what the host's had set aside.
    pub(crate) set_aside: Vec<ObjectId>,
    pub(crate) taken_back: Option<ObjectId>,
    /// The file of an operation that is not imported.
    pub(crate) other_operation: Option<&'static str>,
    pub(crate) settings: Part<Settings>,
}

impl Snapshot {
    /// Reads the host's repository, when no task has it yet.
    ///
    /// # Errors
    ///
    /// When there is more of it than a program can hold.
    pub fn take(host: &HostRepository) -> Result<Self, Error> {
        Self::of(host, host.view())
    }

    /// What `view` says of the host's repository, and that itself of the rest.
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

    /// Which paths the index in `view` has other versions of than the host's has now, where it is not the one of the start; `None` where one
    /// of the two is not understood.
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
    /// What the host's repository says now; its index only if that is asked for.
    pub(crate) fn of_host(host: &HostRepository, with_index: bool) -> Result<Self, Error> {
        let mut state = Self::read(host.view(), host, &Snapshot::empty(host.format()), &unlimited())?;
        if with_index {
            state.index = index(&host.view().read(&host.own("index"), OWN_FILE), host.format());
        }
        Ok(state)
    }

    /// Reads the index of a task's view. One that is the host's byte for byte is as it was.
    pub(crate) fn with_index(mut self, view: &View, host: &HostRepository, limits: &Limits) -> Self {
        let read = |view: &View| view.read(&host.own("index"), limits.file_bytes);
        let now = read(view);
        if !matches!(now, Found::Same) && now != read(host.view()) {
            self.index = index(&now, host.format());
        }
        self
    }

    /// What a task's view says, but for the index. What it says nothing of is as at the start.
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
                // The host's own was not understood either.
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

/// A path as text, whatever its bytes are.
pub(crate) fn odd_name(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().escape_ascii().to_string()
}

/// The commit that `head` is at, by `table`.
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
                let problem = "keeps its refs in a reftable now, which is not understood yet";
                return Err(Error::Unsupported { path: view.path().to_owned(), problem });
            }
            Ok(settings) => Part::Here(Settings::of(&settings)),
            // The host's own may be as large as this, and is in a copy too.
            Err(_) if host.view().read(config, limits.file_bytes) == Found::Here(text) => Part::Same,
            Err(why) => Part::Bad(why),
        },
    })
}

/// Limits for what is the host's own.
fn unlimited() -> Limits {
    Limits {
        refs: u64::MAX,
        file_bytes: OWN_FILE,
        config_bytes: OWN_FILE,
        settings: usize::MAX,
        ..Limits::default()
    }
}

/// The settings in `text`, or why they are not read.
fn of_config(text: &[u8], limits: &Limits) -> Result<Vec<Setting>, &'static str> {
    if text.len() as u64 > limits.config_bytes {
        return Err("it is too large");
    }
    // Names that are repeated take memory that their file does not.
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
        .map_or(Part::Bad("it names no branch and no commit"), Part::Here)
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

/// The stashes, and whether these are all.
fn stashes(view: &View, base: &[Stash], table: &Table, format: Format) -> (Vec<Stash>, bool) {
    let newest = RefName::parse(b"refs/stash").and_then(|name| table.get(&name)?.object());
    let Some(newest) = newest else {
        return (Vec::new(), true);
    };
    let (log, is_whole) = match view.read(Path::new("logs/refs/stash"), 1 << 20) {
        Found::Same => (base.to_vec(), true),
        // As the loss of power leaves it.
        Found::Here(text) if text.is_empty() => (base.to_vec(), true),
        Found::Here(text) => stash::parse(&text, format),
        Found::Absent => (Vec::new(), true),
        Found::Odd(_) => (Vec::new(), false),
    };
    // The ref counts; a log that ends elsewhere is not its log.
    if log.first().is_some_and(|stash| stash.id == *newest) {
        (log, is_whole)
    } else {
        let is_whole = is_whole && log.is_empty();
        (vec![Stash::bare(newest.clone())], is_whole)
    }
}
