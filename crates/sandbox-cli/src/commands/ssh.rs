//! `ssh …`: the keys that sign commits of tasks.

use sandbox::credentials::HostCommand;
use sandbox::ssh::{KeyInfo, KeyKind, Passphrase, SshScope, Unlock};
use serde::Serialize;

use crate::args::{Output, SshCommand, SshScopeArgs, SshUnlockArgs};
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::settings::{Project, TrustedProject};
use crate::table::aligned;

/// Runs the subcommand. If the configuration specifies how to unlock keys, it is obeyed and must be
/// trusted.
pub(crate) async fn ssh(
    command: SshCommand,
    project: impl Fn() -> Result<Project, Failure>,
    trusted: impl Fn() -> Result<TrustedProject, Failure>,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let unlocked = |scope: &SshScopeArgs, unlock: SshUnlockArgs| {
        let name = scope.scope.as_deref();
        if let Some(unlock) = given(unlock, environment)? {
            return project()?.ssh_scope(name, unlock);
        }
        let project = trusted()?;
        project.ssh_scope(name, project.ssh_unlock(environment)?)
    };
    // Listing public keys and removing keys needs no unlocking.
    let locked = |scope: &SshScopeArgs| project()?.ssh_scope(scope.scope.as_deref(), Unlock::Keyring);
    match command {
        SshCommand::Init(args) => {
            let scope = unlocked(&args.scope, args.unlock)?;
            public(&[scope.init(KeyKind::Ed25519, args.comment.as_deref()).await?], printer);
        }
        SshCommand::Rotate(args) => {
            let scope = unlocked(&args.scope, args.unlock)?;
            public(&[scope.rotate(KeyKind::Ed25519).await?], printer);
        }
        SshCommand::List(args) => list(&locked(&args.scope)?, args.output, printer)?,
        SshCommand::Public(args) => public(&locked(&args)?.list()?, printer),
        SshCommand::Remove(args) => {
            let removed = locked(&args)?.remove().await?;
            printer.message(format_args!("removed {removed} keys"));
        }
    }
    Ok(ExitStatus::Success)
}

/// The source of the passphrase that the flags name.
fn given(unlock: SshUnlockArgs, environment: &Environment) -> Result<Option<Unlock>, Failure> {
    let SshUnlockArgs { keyring, passphrase_env, passphrase_command } = unlock;
    if let Some(name) = passphrase_env {
        let value = environment.exact(&name).and_then(|value| value.to_str());
        let value = value.ok_or_else(|| {
            Failure::usage(format!("the variable `{}` must be set, to valid UTF-8", name.escape_debug()))
        })?;
        return Ok(Some(Unlock::Passphrase(Passphrase::new(value)?)));
    }
    if !passphrase_command.is_empty() {
        return Ok(Some(Unlock::Command(HostCommand::new(from_here(passphrase_command)?))));
    }
    Ok(keyring.then_some(Unlock::Keyring))
}

/// The command with the absolute path of its program, if that is a path: it runs in another folder.
fn from_here(mut command: Vec<String>) -> Result<Vec<String>, Failure> {
    if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
        let path = std::path::absolute(&*program).map_err(Failure::doing("find the program"))?;
        *program = path
            .into_os_string()
            .into_string()
            .map_err(|_| Failure::usage("the path of the program is not UTF-8"))?;
    }
    Ok(command)
}

fn public(keys: &[KeyInfo], printer: Printer) {
    for key in keys {
        printer.line(sanitize_name(&key.public_line));
    }
}

fn list(scope: &SshScope, output: Output, printer: Printer) -> Result<(), Failure> {
    let keys = scope.list()?;
    match output {
        Output::Text => {
            let row = |key: &KeyInfo| vec![key.fingerprint.clone(), sanitize_name(&key.comment)];
            for line in aligned(&keys.iter().map(row).collect::<Vec<_>>()) {
                printer.line(line);
            }
        }
        Output::Json => {
            let keys = keys.iter().map(|key| JsonKey {
                fingerprint: &key.fingerprint,
                comment: &key.comment,
                public_line: &key.public_line,
            });
            let list = JsonList { version: 1, scope: scope.scope().as_str(), keys: keys.collect() };
            printer.line(serde_json::to_string_pretty(&list)?);
        }
    }
    Ok(())
}

/// The document of `--output json`.
#[derive(Serialize)]
struct JsonList<'a> {
    version: u32,
    scope: &'a str,
    keys: Vec<JsonKey<'a>>,
}

#[derive(Serialize)]
struct JsonKey<'a> {
    fingerprint: &'a str,
    comment: &'a str,
    public_line: &'a str,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    struct Fixture {
        folder: tempfile::TempDir,
        environment: Environment,
    }

    impl Fixture {
        fn new(config: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(folder.path().join("project/.sandbox")).unwrap();
            std::fs::write(folder.path().join("project/.sandbox/sandbox.yaml"), config).unwrap();
            let state = folder.path().join("state").into_os_string().into_string().unwrap();
            let environment = Environment::from([("SECRET", "hunter2"), ("XDG_STATE_HOME", &state)]);
            Self { folder, environment }
        }

        fn project(&self) -> Result<Project, Failure> {
            let printer = Printer::new(0, true);
            Project::load_at(&self.folder.path().join("project"), None, &self.environment, printer)
        }

        /// Nothing is trusted here, and questions are not possible.
        async fn run(&self, arguments: &[&str]) -> Result<ExitStatus, Failure> {
            let cli = Cli::try_parse_from([&["sandbox", "ssh"], arguments].concat()).unwrap();
            let Command::Ssh(command) = cli.command else { panic!("another command") };
            let untrusted = || Err(Failure::new("not trusted"));
            ssh(command, || self.project(), untrusted, &self.environment, Printer::new(0, true)).await
        }

        fn keys(&self, name: &str) -> Vec<KeyInfo> {
            self.project().unwrap().ssh_scope(Some(name), Unlock::Keyring).unwrap().list().unwrap()
        }
    }

    #[tokio::test]
    async fn keys_are_created_replaced_and_removed() {
        let fixture = Fixture::new("");
        let unlock = ["--passphrase-env", "SECRET"];
        fixture.run(&[&["init", "s"], unlock.as_slice()].concat()).await.unwrap();
        fixture.run(&[&["init", "s", "--comment", "c"], unlock.as_slice()].concat()).await.unwrap();
        let keys = fixture.keys("s");
        assert_eq!(keys.iter().map(|key| key.comment.as_str()).collect::<Vec<_>>(), ["sandbox:s", "c"]);
        let command = ["rotate", "s", "--passphrase-command", "printf", "hunter2"];
        fixture.run(&command).await.unwrap();
        let rotated = fixture.keys("s");
        assert!(rotated.len() == 1 && !keys.contains(&rotated[0]));
        for look in [["list", "s"].as_slice(), &["list", "s", "--output", "json"], &["public", "s"]] {
            fixture.run(look).await.unwrap();
        }
        fixture.run(&["remove", "s"]).await.unwrap();
        assert!(fixture.keys("s").is_empty());
    }

    #[tokio::test]
    async fn untrusted_configuration_names_the_scope_but_runs_nothing() {
        let fixture = Fixture::new("ssh: {scope: mine, unlock: {command: [touch, ran]}}");
        let error = fixture.run(&["init"]).await.unwrap_err();
        assert_eq!(error.to_string(), "not trusted");
        fixture.run(&["init", "--passphrase-env", "SECRET"]).await.unwrap();
        assert_eq!(fixture.keys("mine").len(), 1, "the control");
        let other = Fixture::new("");
        for (arguments, expected) in [
            (["init", "--keyring"].as_slice(), "no scope given"),
            (&["init", "../x", "--keyring"], "not a valid scope name"),
            (&["init", "s", "--passphrase-env", "MISSING"], "must be set"),
        ] {
            let error = other.run(arguments).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
