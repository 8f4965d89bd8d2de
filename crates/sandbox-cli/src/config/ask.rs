//! The key `ask` of `sandbox.yaml`: a program of the host that answers the questions of `--ask`.

use std::ffi::OsString;

use located_yaml::{InvalidFile, Location, Spanned};
use sandbox::host_path::Resolver;
use serde::de::{Deserialize, Deserializer, Error as _};

use super::Environment;
use super::credentials::{Kept, Source, trusted_program};

/// The variables that it gets besides `PATH`, if they are set: those that programs need which show
/// something on a desktop. None of them is for credentials.
const VARIABLES: [&str; 11] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "TZ",
    "USER",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// The arguments of a process, program first, and its whole environment.
pub(crate) type AskProcess = (Vec<String>, Vec<(&'static str, OsString)>);

/// The program and its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AskCommand(Spanned<Vec<String>>);

impl<'de> Deserialize<'de> for AskCommand {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = Source::deserialize(deserializer)?;
        match source.kept().map(|kept| &**kept) {
            Some(Kept::Command(argv)) => Ok(Self(Spanned::new(argv.clone(), source.location().clone()))),
            _ => Err(D::Error::custom("`ask` takes a program, as in `!command [ask-me, --chat]`")),
        }
    }
}

impl AskCommand {
    /// Where it is written.
    pub(super) fn location(&self) -> &Location {
        self.0.location()
    }

    /// Describes it for the trust review.
    pub(crate) fn right(&self) -> String {
        format!("{}, to answer questions of --ask", Kept::Command(self.0.to_vec()))
    }

    /// Its arguments, after the absolute path of the program, and its environment.
    ///
    /// # Errors
    ///
    /// If a task could have written the program, or it does not exist.
    pub(crate) fn trusted(
        &self,
        environment: &Environment,
        resolver: &Resolver,
    ) -> Result<AskProcess, InvalidFile> {
        let trusted = trusted_program(&self.0, environment, resolver);
        let (argv, search_path) = trusted.map_err(|problem| InvalidFile::new(self.0.location(), problem))?;
        let kept = VARIABLES.iter().filter_map(|name| Some((*name, environment.exact(name)?.to_owned())));
        Ok((argv, kept.chain([("PATH", search_path)]).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;

    fn parse(value: &str) -> Result<AskCommand, String> {
        let file = ConfigFile::parse(&format!("ask: {value}"), "f", "/project".as_ref());
        file.map(|file| file.ask.unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn only_a_command_is_accepted() {
        assert!(parse("!command [ask-me, --chat]").is_ok());
        for value in
            ["[ask-me]", "ask-me", "!command []", "!command [a/b]", "!file /x", "!env X", "!keyring x"]
        {
            let error = parse(value).unwrap_err();
            assert!(error.starts_with("f:1:"), "{value}: {error}");
        }
    }

    #[test]
    fn program_gets_no_credentials_of_the_environment() {
        let environment = Environment::from([
            ("PATH", "relative:/usr/bin:/bin"),
            ("HOME", "/home/me"),
            ("GH_TOKEN", "hunter2"),
            ("LD_PRELOAD", "/x.so"),
        ]);
        let (argv, variables) =
            parse("!command [env, $(id), a b]").unwrap().trusted(&environment, &Resolver::default()).unwrap();
        assert!(argv[0].starts_with('/') && argv[1..] == ["$(id)", "a b"], "{argv:?}");
        let expected = [("HOME", "/home/me"), ("PATH", "/usr/bin:/bin")];
        assert_eq!(variables, expected.map(|(name, value)| (name, OsString::from(value))));
    }

    #[test]
    fn program_that_a_task_could_have_written_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(tree.path().join("ask-me"), "").unwrap();
        let environment = Environment::from([("PATH", tree.path().to_str().unwrap())]);
        let trusted = |resolver| parse("!command [ask-me]").unwrap().trusted(&environment, &resolver);
        let error = trusted(Resolver::new([tree.path()])).unwrap_err().to_string();
        assert!(error.starts_with("f:1:6: ") && error.contains("tasks can write"), "{error}");
        assert!(trusted(Resolver::default()).is_ok(), "the control");
    }
}
