//! What `sandbox.yaml` says about SSH keys.

use located_yaml::{InvalidFile, Location, Spanned};
use sandbox::host_path::Resolver;
use sandbox::ssh::{Passphrase, Scope, SshError, Unlock};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Environment;
use super::credentials::{Kept, trusted_command};
use super::setting::Setting;
use crate::printer::quoted;

/// The part `ssh`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping, as in {scope: my-project, unlock: keyring}")]
pub(super) struct SshDocument {
    /// Whose keys sign git's commits.
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    scope: Spanned<String>,
    /// Where the passphrase of the keys comes from.
    unlock: UnlockDocument,
    /// Whether git signs each commit and tag; default only those with -S or -s.
    #[serde(default)]
    sign_all: bool,
}

/// Where a passphrase comes from.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UnlockDocument {
    /// The key `sandbox-ssh` in the kernel's keyring of the user.
    Keyring,
    /// The first line that this command prints, program first, run without a shell.
    Command(Vec<String>),
    /// A variable, as in `!env NAME`.
    Passphrase(Setting),
}

/// Whose keys sign, and how they are unlocked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SshFile {
    pub(crate) scope: Scope,
    pub(crate) sign_all: bool,
    unlock: UnlockDocument,
    place: Location,
}

impl SshFile {
    pub(super) fn new(document: SshDocument) -> Result<Self, InvalidFile> {
        let SshDocument { scope, unlock, sign_all } = document;
        let place = scope.location().clone();
        let fault = |fault: &str| Err(InvalidFile::new(&place, fault.to_owned()));
        match &unlock {
            UnlockDocument::Command(command) if command.first().is_none_or(String::is_empty) => {
                return fault("`command` is empty: name a program to run");
            }
            UnlockDocument::Passphrase(setting) if setting.variable_name().is_none() => {
                return Err(InvalidFile::new(
                    setting.location(),
                    "a passphrase in this file is one that tasks can read: write `!env NAME`",
                ));
            }
            _ => {}
        }
        match scope.parse() {
            Ok(name) => Ok(Self { scope: name, sign_all, unlock, place }),
            Err(error) => {
                let error: SshError = error;
                fault(&error.to_string())
            }
        }
    }

    /// Where the passphrase comes from.
    ///
    /// # Errors
    ///
    /// When it is a variable that is not set, not text or empty, or a program that a task could have written.
    pub(crate) fn unlock(
        &self,
        environment: &Environment,
        resolver: &Resolver,
    ) -> Result<Unlock, InvalidFile> {
        match &self.unlock {
            UnlockDocument::Keyring => Ok(Unlock::Keyring),
            UnlockDocument::Command(command) => {
                let command = trusted_command(command, environment, resolver);
                Ok(Unlock::Command(command.map_err(|fault| InvalidFile::new(&self.place, fault))?))
            }
            UnlockDocument::Passphrase(setting) => {
                let passphrase = Passphrase::new(setting.resolve(environment)?.expose());
                let at = |error: SshError| InvalidFile::new(setting.location(), error.to_string());
                Ok(Unlock::Passphrase(passphrase.map_err(at)?))
            }
        }
    }

    /// What is signed and how the keys are unlocked, for the person who is to trust it.
    pub(crate) fn rights(&self) -> [String; 2] {
        let what = if self.sign_all { "every commit and tag" } else { "commits that ask for it" };
        let keys = format!("your SSH keys of {}", quoted(&self.scope.to_string()));
        let how = match &self.unlock {
            UnlockDocument::Keyring => "read the key `sandbox-ssh` of your keyring".to_owned(),
            UnlockDocument::Command(command) => Kept::Command(command.clone()).to_string(),
            // It is never a text of the file.
            UnlockDocument::Passphrase(setting) => {
                format!("read your variable {}", quoted(setting.variable_name().unwrap_or_default()))
            }
        };
        [format!("sign {what} with {keys}"), format!("{how}, to unlock {keys}")]
    }
}

#[cfg(test)]
mod tests {
    use crate::config::ConfigFile;

    use super::*;

    fn parse(text: &str) -> Result<SshFile, String> {
        let file = ConfigFile::parse(text, "f", "/project".as_ref());
        file.map(|file| file.ssh.unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn each_way_to_unlock_is_read_and_asked_for() {
        let environment =
            Environment::from([("SECRET", "hunter2"), ("EMPTY", ""), ("PATH", "/usr/bin:/bin")]);
        let written = tempfile::tempdir().unwrap();
        let resolver = Resolver::new([written.path()]);
        for (unlock, shown, read) in [
            ("keyring", "Keyring", "read the key `sandbox-ssh` of your keyring"),
            (
                "{command: [/usr/bin/env, show, ssh]}",
                "Command(",
                "run `/usr/bin/env show ssh` on this machine",
            ),
            ("{passphrase: !env SECRET}", "Passphrase(Passphrase(..))", "read your variable `SECRET`"),
        ] {
            let file = parse(&format!("ssh: {{scope: s, unlock: {unlock}}}")).unwrap();
            let unlock = format!("{:?}", file.unlock(&environment, &resolver).unwrap());
            assert!(unlock.starts_with(shown), "{unlock}");
            assert!(!file.sign_all);
            let sign = "sign commits that ask for it with your SSH keys of `s`".to_owned();
            assert_eq!(file.rights(), [sign, format!("{read}, to unlock your SSH keys of `s`")]);
        }
        for (name, expected) in [("EMPTY", "empty"), ("MISSING", "not set")] {
            let file = parse(&format!("ssh: {{scope: s, unlock: {{passphrase: !env {name}}}}}")).unwrap();
            let error = file.unlock(&environment, &resolver).unwrap_err().to_string();
            assert!(error.starts_with("f:1:") && error.contains(expected), "{error}");
        }
        std::fs::write(written.path().join("ask"), "").unwrap();
        let planted = written.path().join("ask").display().to_string();
        for command in [format!("[{planted}]"), format!("[sh, {planted}]")] {
            let file = parse(&format!("ssh: {{scope: s, unlock: {{command: {command}}}}}")).unwrap();
            let error = file.unlock(&environment, &resolver).unwrap_err().to_string();
            assert!(error.starts_with("f:1:") && error.contains("where tasks can write"), "{error}");
        }
        assert!(parse("ssh: {scope: s, unlock: keyring, sign_all: true}").unwrap().sign_all);
    }

    #[test]
    fn what_is_no_scope_or_shows_the_passphrase_is_refused() {
        for (text, expected) in [
            ("{unlock: keyring}", "scope"),
            ("{scope: s}", "unlock"),
            ("{scope: ../x, unlock: keyring}", "not a valid scope name"),
            ("{scope: s, unlock: {command: []}}", "name a program"),
            ("{scope: s, unlock: {passphrase: hunter2}}", "!env NAME"),
            ("{scope: s, unlock: prompt}", "prompt"),
        ] {
            let error = parse(&format!("ssh: {text}")).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
