//! The part of `sandbox.yaml` for SSH keys.

use located_yaml::{InvalidFile, Spanned};
use sandbox::host_path::Resolver;
use sandbox::ssh::{Passphrase, Scope, SshError, Unlock};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::Environment;
use super::credentials::{Kept, trusted_command};
use super::setting::Setting;
use crate::printer::quoted;

/// The part `ssh`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping, as in {scope: my-project, unlock: keyring}")]
#[schemars(rename = "SshDocument")]
pub(crate) struct SshFile {
    /// The scope whose keys sign git's commits.
    #[serde(deserialize_with = "scope")]
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub(crate) scope: Spanned<Scope>,
    /// The source of the keys' passphrase.
    unlock: UnlockDocument,
    /// Whether git signs each commit and tag; default only those with -S or -s.
    #[serde(default)]
    pub(crate) sign_all: bool,
}

/// The source of a passphrase.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UnlockDocument {
    /// The key `sandbox-ssh` in the kernel's keyring of the user.
    Keyring,
    /// The first line of this command's output, program first, run without a shell.
    Command(Vec<String>),
    /// A variable, as in `!env NAME`.
    Passphrase(Setting),
}

fn scope<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Spanned<Scope>, D::Error> {
    let text = Spanned::<String>::deserialize(deserializer)?;
    let scope = text.parse().map_err(|error: SshError| D::Error::custom(error))?;
    Ok(Spanned::new(scope, text.location().clone()))
}

impl SshFile {
    /// Refuses a passphrase that tasks can read, and a command without a program.
    pub(super) fn check(&self) -> Result<(), InvalidFile> {
        match &self.unlock {
            UnlockDocument::Command(command) if command.first().is_none_or(String::is_empty) => {
                Err(InvalidFile::new(self.scope.location(), "`command` is empty: name a program to run"))
            }
            UnlockDocument::Passphrase(setting) if setting.variable_name().is_none() => {
                Err(InvalidFile::new(
                    setting.location(),
                    "tasks can read a passphrase in this file: write `!env NAME`",
                ))
            }
            _ => Ok(()),
        }
    }

    /// The source of the passphrase.
    ///
    /// # Errors
    ///
    /// If it is a variable that is not set, not text or empty, or a program that a task could have
    /// written.
    pub(crate) fn unlock(
        &self,
        environment: &Environment,
        resolver: &Resolver,
    ) -> Result<Unlock, InvalidFile> {
        match &self.unlock {
            UnlockDocument::Keyring => Ok(Unlock::Keyring),
            UnlockDocument::Command(command) => {
                let command = trusted_command(command, environment, resolver);
                Ok(Unlock::Command(
                    command.map_err(|problem| InvalidFile::new(self.scope.location(), problem))?,
                ))
            }
            UnlockDocument::Passphrase(setting) => {
                let passphrase = Passphrase::new(setting.resolve(environment)?.expose());
                let at = |error: SshError| InvalidFile::new(setting.location(), error.to_string());
                Ok(Unlock::Passphrase(passphrase.map_err(at)?))
            }
        }
    }

    /// Describes what is signed and how the keys are unlocked, for the trust review.
    pub(crate) fn rights(&self) -> [String; 2] {
        let what = if self.sign_all { "every commit and tag" } else { "commits on request" };
        let keys = format!("your SSH keys of {}", quoted(self.scope.as_str()));
        let how = match &self.unlock {
            UnlockDocument::Keyring => "read the key `sandbox-ssh` of your keyring".to_owned(),
            UnlockDocument::Command(command) => Kept::Command(command.clone()).to_string(),
            // `check` refused a literal text.
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
    fn each_unlock_method_is_parsed_and_needs_trust() {
        let environment =
            Environment::from([("SECRET", "hunter2"), ("EMPTY", ""), ("PATH", "/usr/bin:/bin")]);
        let written = tempfile::tempdir().unwrap();
        let resolver = Resolver::new([written.path()]);
        for (unlock, shown, read) in [
            ("keyring", "Keyring", "read the key `sandbox-ssh` of your keyring"),
            ("{command: [/usr/bin/env, show, ssh]}", "Command(", "run `/usr/bin/env show ssh` on the host"),
            ("{passphrase: !env SECRET}", "Passphrase(Passphrase(..))", "read your variable `SECRET`"),
        ] {
            let file = parse(&format!("ssh: {{scope: s, unlock: {unlock}}}")).unwrap();
            let unlock = format!("{:?}", file.unlock(&environment, &resolver).unwrap());
            assert!(unlock.starts_with(shown), "{unlock}");
            assert!(!file.sign_all);
            let sign = "sign commits on request with your SSH keys of `s`".to_owned();
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
    fn malformed_scope_or_clear_passphrase_is_refused() {
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
