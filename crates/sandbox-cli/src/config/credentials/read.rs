//! Reads values from their sources on the host. It runs and opens nothing that a task could have
//! written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use allowlist::HostPattern;
use located_yaml::{InvalidFile, Spanned};
use sandbox::credentials::{HostCommand, SecretSource, SecretValue};
use sandbox::host_path::{Found, PathProblem, Resolver};
use zeroize::Zeroizing;

use super::entry::{CredentialsFile, SessionToken};
use super::source::{Kept, Source};
use crate::config::Environment;
use crate::failure::with_causes;

/// The maximum size of a file with a value, in bytes.
const LONGEST_FILE: u64 = 64 << 10;

/// A value that is read again while a task runs.
#[derive(Debug, Clone)]
pub(crate) struct Renewable {
    /// How long the value is valid after it was read; `None`: until it is refused.
    pub(crate) ttl: Option<Duration>,
    /// The hosts that get it.
    pub(crate) scopes: Vec<HostPattern>,
    /// The variable of each part, and the source of its value. All are renewed, or none.
    parts: Vec<(String, Spanned<Kept>)>,
}

impl Renewable {
    /// The variables of the task that have its surrogates, for messages.
    pub(crate) fn name(&self) -> String {
        self.parts.iter().map(|(variable, _)| variable.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Reads it again: the value for each variable.
    pub(crate) async fn read(
        &self,
        environment: &Environment,
        resolver: &Resolver,
    ) -> Result<Vec<(String, SecretValue)>, InvalidFile> {
        let mut values = Vec::new();
        for (variable, kept) in &self.parts {
            values.push((variable.clone(), read(kept, environment, resolver).await?));
        }
        Ok(values)
    }
}

impl CredentialsFile {
    /// Those of a configuration with this text.
    #[cfg(test)]
    pub(crate) fn of_text(yaml: &str) -> Self {
        crate::config::ConfigFile::parse(yaml, "sandbox.yaml", Path::new("/project")).unwrap().credentials
    }

    /// The same, with the values from the host read: programs are run, and files and keys read, one
    /// after the other.
    ///
    /// # Errors
    ///
    /// All errors.
    pub(crate) async fn read(
        &self,
        environment: &Environment,
        resolver: &Resolver,
    ) -> Result<Self, Vec<InvalidFile>> {
        let mut read_file = self.clone();
        let mut problems = Vec::new();
        for source in read_file.sources_mut() {
            let Some(kept) = source.kept() else { continue };
            match read(kept, environment, resolver).await {
                Ok(value) => *source = source.with(value),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(read_file) } else { Err(problems) }
    }

    /// The same, with placeholder values instead of those kept on the host: for commands that only
    /// check.
    pub(crate) fn with_placeholders(&self) -> Self {
        let mut looked_at = self.clone();
        for source in looked_at.sources_mut() {
            *source = source.placeholder();
        }
        looked_at
    }

    /// The errors of [`read`](Self::read) that can be found without running or reading anything.
    pub(crate) fn places(&self, environment: &Environment, resolver: &Resolver) -> Vec<InvalidFile> {
        let kept = self.sources().filter_map(Source::kept);
        kept.filter_map(|kept| {
            let checked = match &**kept {
                Kept::Command(command) => trusted_command(command, environment, resolver).map(drop),
                Kept::File(path) | Kept::GitHubApp { key: path, .. } => trusted(resolver, path).map(drop),
                Kept::Keyring(_) => Ok(()),
            };
            checked.err().map(|problem| InvalidFile::new(kept.location(), problem))
        })
        .chain(self.logins.iter().filter_map(|entry| {
            let at_its_place = |problem| InvalidFile::new(&entry.location, problem);
            let file = entry.file(environment);
            file.and_then(|file| trusted(resolver, &file).map_err(at_its_place)).err()
        }))
        .collect()
    }

    /// The values that are kept on the host and can be read again.
    pub(crate) fn renewables(&self) -> Vec<Renewable> {
        let masked = self.masked.iter().filter_map(|entry| {
            let kept = entry.value.kept()?;
            let ttl = entry.ttl.or_else(|| kept.usual_ttl());
            let parts = vec![(entry.variable.clone(), kept.clone())];
            Some(Renewable { ttl, scopes: entry.injection.scopes.clone(), parts })
        });
        let signing = self.signing.iter().filter_map(|entry| {
            let parts = entry.sources().zip(entry.variables());
            let kept =
                parts.filter_map(|(source, variable)| Some((variable.to_owned(), source.kept()?.clone())));
            let parts: Vec<_> = kept.collect();
            let scopes = entry.scopes.clone();
            (!parts.is_empty()).then_some(Renewable { ttl: entry.ttl, scopes, parts })
        });
        masked.chain(signing).collect()
    }

    fn sources_mut(&mut self) -> impl Iterator<Item = &mut Source> {
        let masked = self.masked.iter_mut().map(|entry| &mut entry.value);
        let signing = self.signing.iter_mut().flat_map(|entry| {
            let token = match &mut entry.session_token {
                SessionToken::None => None,
                SessionToken::Required(source) | SessionToken::IfSet(source) => Some(source),
            };
            [&mut entry.access_key_id, &mut entry.secret_access_key].into_iter().chain(token)
        });
        masked.chain(signing)
    }
}

async fn read(
    kept: &Spanned<Kept>,
    environment: &Environment,
    resolver: &Resolver,
) -> Result<SecretValue, InvalidFile> {
    let invalid = |problem: String| InvalidFile::new(kept.location(), problem);
    let bytes = match &**kept {
        Kept::Command(command) => {
            let command = trusted_command(command, environment, resolver).map_err(invalid)?;
            SecretSource::Command(command).read().await.map_err(|error| invalid(error.to_string()))?
        }
        Kept::File(path) => read_file(path, resolver).map_err(invalid)?,
        Kept::GitHubApp { app, key } => {
            let key = read_file(key, resolver).map_err(invalid)?;
            return app.token(&key, SystemTime::now()).await.map_err(|error| invalid(error.to_string()));
        }
        Kept::Keyring(name) => {
            SecretSource::Keyring(name.clone()).read().await.map_err(|error| invalid(error.to_string()))?
        }
    };
    value(&bytes).map_err(|problem| invalid(format!("{problem}: check its source")))
}

fn read_file(path: &Path, resolver: &Resolver) -> Result<Zeroizing<Vec<u8>>, String> {
    let read = trusted(resolver, path)?.read(LONGEST_FILE);
    read.map(Zeroizing::new).map_err(|error| with_causes(&error))
}

/// The value, without one line feed at its end.
fn value(bytes: &[u8]) -> Result<SecretValue, &'static str> {
    let text = str::from_utf8(bytes.strip_suffix(b"\n").unwrap_or(bytes));
    match text {
        Ok("") => Err("the value is empty"),
        Ok(text) => Ok(SecretValue::new(text)),
        Err(_) => Err("the value is not UTF-8"),
    }
}

/// The command with the absolute path of its program, which no task can have written.
pub(in crate::config) fn trusted_command(
    command: &[String],
    environment: &Environment,
    resolver: &Resolver,
) -> Result<HostCommand, String> {
    let (argv, search_path) = trusted_program(command, environment, resolver)?;
    Ok(HostCommand::new(argv).search_path(search_path))
}

/// The same, with its `PATH`. Arguments that are paths are checked too: a script that a task could
/// have written is as dangerous as a program.
pub(in crate::config) fn trusted_program(
    command: &[String],
    environment: &Environment,
    resolver: &Resolver,
) -> Result<(Vec<String>, OsString), String> {
    // A relative folder in it would be a different one where the command runs.
    let folders = environment.exact("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(folders).filter(|folder| folder.is_absolute()).collect();
    let (program, arguments) = command.split_first().ok_or("the command is empty")?;
    let path = if program.starts_with('/') {
        trusted(resolver, Path::new(program))?;
        program.clone()
    } else {
        let is_file = |path: &PathBuf| resolver.find(path).is_ok_and(|found| found.is_file());
        let path = folders.iter().map(|folder| folder.join(program)).find(is_file).ok_or_else(|| {
            format!("`{}` is not in PATH: install it, or write its absolute path", program.escape_debug())
        })?;
        trusted(resolver, &path)?;
        path.to_str().ok_or("the path of the program is not UTF-8")?.to_owned()
    };
    for argument in arguments.iter().filter(|argument| argument.starts_with('/')) {
        // A missing file may not be a path at all, or may be created later: then the place where it
        // would be counts.
        let found = Path::new(argument).ancestors().find(|path| match resolver.find(path) {
            Ok(_) => true,
            Err(error) => matches!(error.problem(), PathProblem::Link { .. }),
        });
        found.map(|path| trusted(resolver, path)).transpose()?;
    }
    // Programs that it starts by name are searched there.
    let kept = folders.iter().filter(|folder| trusted(resolver, folder).is_ok());
    let search_path = std::env::join_paths(kept).map_err(|error| error.to_string())?;
    Ok((std::iter::once(path).chain(arguments.iter().cloned()).collect(), search_path))
}

/// The file at `path`, which no task can have written or read.
fn trusted(resolver: &Resolver, path: &Path) -> Result<Found, String> {
    let found = resolver.find(path).map_err(|error| with_causes(&error))?;
    if found.is_untrusted() {
        return Err(format!(
            "`{}` is where tasks can write, so it is not used: move it out of the folders that are mounted",
            path.display().to_string().escape_debug()
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const VALUE: &str = "hunter2-hunter2-hunter2";

    /// A host with `/host` of a user and `/tree` of tasks, each with a program `get` and a file
    /// `token`.
    struct Machine {
        root: tempfile::TempDir,
        resolver: Resolver,
        environment: Environment,
    }

    impl Machine {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            for folder in ["host", "tree"] {
                let folder = root.path().join(folder);
                fs::create_dir(&folder).unwrap();
                fs::write(folder.join("token"), format!("{VALUE}\n")).unwrap();
                fs::write(folder.join("get"), format!("#!/bin/sh\nprintf '%s' \"{VALUE}$1\"\n")).unwrap();
                fs::set_permissions(folder.join("get"), fs::Permissions::from_mode(0o755)).unwrap();
            }
            let resolver = Resolver::new([root.path().join("tree")]);
            let path = format!("relative:{0}/host:{0}/tree:/usr/bin:/bin", root.path().display());
            Self { resolver, environment: Environment::from([("PATH", path.as_str())]), root }
        }

        fn credentials(&self, value: &str) -> CredentialsFile {
            let value = value.replace('@', &self.root.path().display().to_string());
            let yaml =
                format!("masked_secrets: {{T: {{value: {value}, scopes: [a.example], headers: [x]}}}}");
            CredentialsFile::of_text(&yaml)
        }

        async fn read(&self, value: &str) -> Result<String, String> {
            let credentials = self.credentials(value);
            let read = credentials.read(&self.environment, &self.resolver).await;
            let shown = format!("{read:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
            let problems = |problems: Vec<InvalidFile>| {
                problems.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
            };
            let read = read.map_err(problems)?;
            Ok(read.masked[0].value.resolve(&self.environment).unwrap().expose().to_owned())
        }
    }

    #[tokio::test]
    async fn values_are_read_from_the_host() {
        let machine = Machine::new();
        let tree = machine.root.path().join("tree");
        fs::copy(tree.join("get"), tree.join("planted")).unwrap();
        for (source, expected) in [
            ("!file @/host/token", VALUE.to_owned()),
            ("!command [get]", VALUE.to_owned()),
            ("!command [@/host/get, ' $(id) &']", format!("{VALUE} $(id) &")),
            // Only one line feed is removed.
            ("!command [printf, 'a\\n\\n']", "a\n".to_owned()),
            ("!command [pwd]", "/".to_owned()),
            // PATH contains its folder, which tasks can write to.
            ("!command [sh, -c, 'planted || echo none']", "none".to_owned()),
            ("written out", "written out".to_owned()),
        ] {
            assert_eq!(machine.read(source).await, Ok(expected), "{source}");
        }
        // Commands that only check run and read nothing.
        let looked_at = machine.credentials("!command [get]").with_placeholders();
        assert!(looked_at.prepare(&machine.environment).is_ok());
        let unread = machine.credentials("!command [get]").prepare(&machine.environment).unwrap_err();
        assert!(unread[0].to_string().contains("was not read"), "{unread:?}");
    }

    #[tokio::test]
    async fn task_writable_sources_are_neither_run_nor_read() {
        let machine = Machine::new();
        symlink(machine.root.path().join("host/token"), machine.root.path().join("tree/link")).unwrap();
        for source in [
            "!file @/tree/token",
            "!file @/tree/link",
            "!command [@/tree/get]",
            "!command [sh, @/tree/get]",
            "!command [cat, @/tree/link]",
            "!command [sh, @/tree/not/there/yet]",
        ] {
            let problem = machine.read(source).await.unwrap_err();
            assert!(
                problem.starts_with("sandbox.yaml:1:29: ") && problem.contains("tasks can write"),
                "{source}: {problem}"
            );
            let seen = machine.credentials(source).places(&machine.environment, &machine.resolver);
            assert_eq!(seen.len(), 1, "{source}: {seen:?}");
        }
        // Programs from a folder of PATH that tasks can write to are refused.
        fs::remove_file(machine.root.path().join("host/get")).unwrap();
        let problem = machine.read("!command [get]").await.unwrap_err();
        assert!(problem.contains("tasks can write"), "{problem}");
        // The control: on a host where tasks write elsewhere, each of them is read.
        let machine = Machine { resolver: Resolver::default(), ..machine };
        for source in ["!file @/tree/link", "!command [get]", "!command [sh, @/tree/get]"] {
            assert_eq!(machine.read(source).await.as_deref(), Ok(VALUE), "{source}");
        }
    }

    #[tokio::test]
    async fn unusable_source_is_an_error_without_the_value() {
        let machine = Machine::new();
        fs::write(machine.root.path().join("host/empty"), "\n").unwrap();
        fs::write(machine.root.path().join("host/binary"), b"\xff").unwrap();
        fs::write(machine.root.path().join("host/long"), "x".repeat(70_000)).unwrap();
        for (source, expected) in [
            ("!file @/host/none", "No such file"),
            ("!file @/host/empty", "the value is empty"),
            ("!file @/host/binary", "not UTF-8"),
            ("!file @/host/long", "larger than"),
            ("!file @/host", "not a regular file"),
            ("!command ['true']", "the value is empty"),
            ("!command [no-such-program-anywhere]", "is not in PATH"),
            (
                "!command [sh, -c, '@/host/get; echo not signed in >&2; exit 2']",
                "exit status: 2: not signed in",
            ),
        ] {
            let problem = machine.read(source).await.unwrap_err();
            assert!(problem.contains(expected), "{source}: {problem}");
        }
    }
}
