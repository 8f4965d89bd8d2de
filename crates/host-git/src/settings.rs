//! The settings that a task changed, and the two settings of a branch that are imported.

use std::collections::{BTreeMap, BTreeSet};

use sandbox_files::hex;
use sha2::{Digest as _, Sha256};

use crate::config::Setting;
use crate::ref_name::RefName;
use crate::report::SettingChange;

/// The values of each setting, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings(BTreeMap<String, Vec<Vec<u8>>>);

/// Digests of settings: the values can be secrets.
pub(crate) type Digests = BTreeMap<String, String>;

/// The state that decides whether a setting is imported.
pub(crate) struct Context<'a> {
    pub(crate) at_start: &'a Digests,
    /// The host's current settings.
    pub(crate) host: &'a Settings,
    /// Whether a branch exists after the import.
    pub(crate) is_branch: &'a dyn Fn(&RefName) -> bool,
    /// Whether the task created a branch.
    pub(crate) is_new: &'a dyn Fn(&RefName) -> bool,
}

impl Settings {
    pub(crate) fn of(settings: &[Setting]) -> Self {
        let mut values: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for setting in settings {
            values.entry(setting.name()).or_default().push(setting.value.clone());
        }
        Self(values)
    }

    pub(crate) fn digests(&self) -> Digests {
        self.0.iter().map(|(name, values)| (name.clone(), digest(values))).collect()
    }

    fn values(&self, name: &str) -> &[Vec<u8>] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    fn has_remote(&self, remote: &str) -> bool {
        self.0.contains_key(&format!("remote.{remote}.url"))
    }

    /// The changes of the task, which has these settings, each with whether it is imported.
    pub(crate) fn changes(&self, context: &Context<'_>) -> Vec<SettingChange> {
        let names: BTreeSet<&String> = self.0.keys().chain(context.at_start.keys()).collect();
        let changed = names.into_iter().filter(|name| {
            let (now, host) = (self.values(name), context.host.values(name));
            let before = context.at_start.get(*name);
            let is_same = if now.is_empty() { before.is_none() } else { before == Some(&digest(now)) };
            !is_same && now != host
        });
        changed.map(|name| self.change(name, context)).collect()
    }

    fn change(&self, name: &str, context: &Context<'_>) -> SettingChange {
        let text = |values: &[Vec<u8>]| -> Vec<String> {
            values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
        };
        let (host, new) = (context.host.values(name), self.values(name));
        let is_moved = if host.is_empty() {
            context.at_start.contains_key(name)
        } else {
            context.at_start.get(name) != Some(&digest(host))
        };
        let stays = match judge(name, new, context) {
            Err(why) => Some(why),
            Ok(()) if is_moved => Some("the host changed it too"),
            Ok(()) => None,
        };
        SettingChange { key: name.to_owned(), old: text(host), new: text(new), stays }
    }
}

/// Whether a task may give a setting these values.
fn judge(name: &str, new: &[Vec<u8>], context: &Context<'_>) -> Result<(), &'static str> {
    if name.contains(char::REPLACEMENT_CHARACTER) {
        // Git would look for another name.
        return Err("its name is not UTF-8");
    }
    let middle = name.strip_prefix("branch.").and_then(|rest| rest.rsplit_once('.'));
    let Some((branch, key @ ("remote" | "merge"))) = middle else {
        return Err("only `branch.NAME.remote` and `branch.NAME.merge` are imported");
    };
    let branch = RefName::branch(branch.as_bytes()).ok_or("git does not accept its branch's name")?;
    let value = match new {
        [] if (context.is_branch)(&branch) => return Err("its branch still exists"),
        [] => return Ok(()),
        [value] => str::from_utf8(value).map_err(|_| "it is not text")?,
        _ => return Err("it has several values"),
    };
    if !(context.is_branch)(&branch) {
        return Err("there is no such branch");
    }
    // For an existing branch, the next push and pull would go to another place than before.
    let is_free = (context.is_new)(&branch) || context.host.values(name).is_empty();
    match key {
        "remote" if !is_free => Err("its branch has another remote already"),
        "remote" if value == "." || context.host.has_remote(value) && !value.starts_with('-') => Ok(()),
        "remote" => Err("the host has no such remote"),
        _ => match RefName::parse(value.as_bytes()) {
            Some(merge) if merge == branch || merge.short_branch().is_some() && (context.is_new)(&branch) => {
                Ok(())
            }
            _ => Err("it names another branch"),
        },
    }
}

fn digest(values: &[Vec<u8>]) -> String {
    let mut hash = Sha256::new();
    for value in values {
        hash.update((value.len() as u64).to_be_bytes());
        hash.update(value);
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const HOST: &str = "[core]\n bare = false\n[remote \"origin\"]\n url = x\n[branch \"main\"]\n remote = origin\n merge = refs/heads/main\n";

    fn check(now: &str, expected: &[(&str, bool)]) {
        check_with(HOST, now, expected);
    }

    fn check_with(host: &str, now: &str, expected: &[(&str, bool)]) {
        let of = |text: &str| Settings::of(&config::settings(text.as_bytes()).unwrap());
        let host = of(host);
        let branches = ["refs/heads/main", "refs/heads/old", "refs/heads/new"];
        let is_branch = |name: &RefName| branches.contains(&name.as_str());
        let is_new = |name: &RefName| name.as_str() == "refs/heads/new";
        let digests = host.digests();
        let context = Context { at_start: &digests, host: &host, is_branch: &is_branch, is_new: &is_new };
        let found = of(now).changes(&context);
        let found: Vec<(&str, bool)> =
            found.iter().map(|change| (change.key.as_str(), change.stays.is_none())).collect();
        assert_eq!(found, expected, "{now}");
    }

    #[test]
    fn two_settings_of_a_branch_are_imported_and_all_others_listed() {
        check(HOST, &[]);
        let with = |text: &str| format!("{HOST}{text}");
        for (text, expected) in [
            (
                "[branch \"new\"]\n remote = origin\n merge = refs/heads/main\n",
                [("branch.new.merge", true), ("branch.new.remote", true)],
            ),
            (
                "[branch \"new\"]\n remote = .\n merge = refs/heads/new\n",
                [("branch.new.merge", true), ("branch.new.remote", true)],
            ),
            (
                "[branch \"none\"]\n remote = origin\n merge = refs/heads/none\n",
                [("branch.none.merge", false), ("branch.none.remote", false)],
            ),
            (
                "[branch \"new\"]\n remote = ext::sh\n merge = refs/tags/x\n",
                [("branch.new.merge", false), ("branch.new.remote", false)],
            ),
            (
                "[core]\n hooksPath = h\n fsmonitor = x\n",
                [("core.fsmonitor", false), ("core.hookspath", false)],
            ),
            ("[include]\n path = x\n[alias]\n s = !sh\n", [("alias.s", false), ("include.path", false)]),
        ] {
            check(&with(text), &expected);
        }
        check(&HOST.replace("refs/heads/main", "refs/heads/evil"), &[("branch.main.merge", false)]);
        check(&HOST.replace(" url = x", " url = ext::sh"), &[("remote.origin.url", false)]);
        check(&with("[branch \"main\"]\n remote = origin\n"), &[("branch.main.remote", false)]);
        check(&HOST.replace("remote = origin", "remote = ."), &[("branch.main.remote", false)]);
        check(
            "[core]\n bare = false\n[remote \"origin\"]\n url = x\n",
            &[("branch.main.merge", false), ("branch.main.remote", false)],
        );
        // An existing branch without a remote gets one.
        check(&with("[branch \"old\"]\n remote = origin\n"), &[("branch.old.remote", true)]);
        // Neither of the two is text.
        let bytes = |text: &[u8]| Settings::of(&config::settings(text).unwrap());
        let host = bytes(b"[branch \"caf\xe9\"]\n remote = origin\n");
        let (at_start, never) = (host.digests(), |_: &RefName| false);
        let context = Context { at_start: &at_start, host: &host, is_branch: &never, is_new: &never };
        let gone: Vec<_> = bytes(b"").changes(&context).into_iter().map(|change| change.stays).collect();
        assert_eq!(gone, [Some("its name is not UTF-8")]);
        // A deleted branch takes its settings along.
        let gone = format!("{HOST}[branch \"gone\"]\n remote = origin\n merge = refs/heads/gone\n");
        check_with(&gone, HOST, &[("branch.gone.merge", true), ("branch.gone.remote", true)]);
    }
}
