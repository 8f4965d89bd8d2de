//! Finds and creates bare repositories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::create_folder;

use crate::GateError;
use crate::git;

/// The suffix of a repository's folder.
const SUFFIX: &str = ".git";
/// The setting with a repository's upstream.
const UPSTREAM: &str = "remote.upstream.url";

/// A folder of bare repositories. Only this crate's git may be able to write to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    folder: PathBuf,
}

/// A bare repository, `NAME.git` in the folder of its gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    name: String,
    path: PathBuf,
}

impl Gate {
    /// The repositories in `folder`, which need not exist yet. Reads nothing.
    #[must_use]
    pub fn open(folder: &Path) -> Self {
        Self { folder: std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()) }
    }

    /// The repository `name`, created empty unless it exists. With an upstream,
    /// [`Repository::sync`] fills it.
    ///
    /// An upstream is `https://…`, `http://…`, `ssh://…`, `file://…`, `git@host:path` or an
    /// absolute path.
    ///
    /// # Errors
    ///
    /// If `name` is not valid (1 to 64 letters, digits, `.`, `_` and `-`, the first a letter or
    /// digit, without `.git`), the upstream is not an address or contains a password, the
    /// repository exists with another upstream, or git or the file system fails.
    pub async fn init(&self, name: &str, upstream: Option<&str>) -> Result<Repository, GateError> {
        let repository = self.named(name)?;
        upstream.map_or(Ok(()), check_upstream)?;
        if repository.exists() {
            let there = repository.upstream().await?;
            let same = upstream.is_none() || there.as_deref() == upstream;
            return if same {
                Ok(repository)
            } else {
                Err(GateError::OtherUpstream { name: name.to_owned(), there })
            };
        }
        create_folder(&self.folder, 0o700).map_err(GateError::files("create", &self.folder))?;
        let unfinished = self.folder.join(format!(".new-{:016x}", rand::random::<u64>()));
        let made = match make(&unfinished, upstream).await {
            // It is either complete or absent.
            Ok(()) => fs::rename(&unfinished, &repository.path)
                .map_err(GateError::files("create", &repository.path)),
            Err(error) => Err(error),
        };
        match made {
            Ok(()) => Ok(repository),
            Err(error) => {
                // The cause of the failure is more useful than an error about the remains.
                let _ = fs::remove_dir_all(&unfinished);
                Err(error)
            }
        }
    }

    /// The repository `name`.
    ///
    /// # Errors
    ///
    /// If it does not exist, or the name is not valid.
    pub fn repository(&self, name: &str) -> Result<Repository, GateError> {
        let repository = self.named(name)?;
        if repository.exists() {
            Ok(repository)
        } else {
            Err(GateError::NoRepository { name: name.to_owned() })
        }
    }

    /// All repositories, by name.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn list(&self) -> Result<Vec<Repository>, GateError> {
        let failed = || GateError::files("read", &self.folder);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed())?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let file_name = entry.map_err(failed())?.file_name();
            let name = file_name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            found.extend(name.and_then(|name| self.named(name).ok()).filter(Repository::exists));
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn named(&self, name: &str) -> Result<Repository, GateError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !first || !name.bytes().all(good) || name.len() > 64 || name.ends_with(SUFFIX) {
            return Err(GateError::InvalidName { name: name.chars().take(80).collect() });
        }
        Ok(Repository { name: name.to_owned(), path: self.folder.join(format!("{name}{SUFFIX}")) })
    }
}

impl Repository {
    /// Its name, without `.git`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its folder, which `git fetch` on the host accepts directly.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The upstream that it mirrors.
    ///
    /// # Errors
    ///
    /// If its configuration cannot be read.
    pub async fn upstream(&self) -> Result<Option<String>, GateError> {
        let mut git = git::clean();
        git.args(["config", "--file"]).arg(self.path.join("config")).args([
            "--default",
            "",
            "--get",
            UPSTREAM,
        ]);
        let text = git::read(git, "read a repository's upstream").await?;
        let text = String::from_utf8_lossy(&text);
        Ok(Some(text.trim_end_matches('\n').to_owned()).filter(|url| !url.is_empty()))
    }

    fn exists(&self) -> bool {
        self.path.join("HEAD").is_file()
    }
}

async fn make(path: &Path, upstream: Option<&str>) -> Result<(), GateError> {
    let mut init = git::clean();
    init.args(["init", "--quiet", "--bare", "--template=", "--initial-branch=main", "--"]).arg(path);
    git::read(init, "create a repository").await?;
    if let Some(upstream) = upstream {
        let mut config = git::clean_in(path);
        config.args(["config", UPSTREAM, upstream]);
        git::read(config, "set a repository's upstream").await?;
    }
    Ok(())
}

fn check_upstream(upstream: &str) -> Result<(), GateError> {
    let (scheme, rest) =
        upstream.split_once("://").map_or((None, upstream), |(scheme, rest)| (Some(scheme), rest));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let invalid = |problem| {
        // Do not repeat a password.
        let upstream = if user.is_some() {
            scheme.map_or_else(|| host.to_owned(), |scheme| format!("{scheme}://…@{host}"))
        } else {
            upstream.to_owned()
        };
        Err(GateError::InvalidUpstream { upstream, problem })
    };
    if upstream.contains(|c: char| c.is_control() || c == ' ') {
        return invalid("it has spaces or control characters");
    }
    match scheme {
        Some("https" | "http") if user.is_some() => invalid(
            "a user and a password belong into git's credential helper, since the address is kept as it is",
        ),
        Some("https" | "http" | "ssh") if host.is_empty() || host.starts_with('-') => {
            invalid("it names no host")
        }
        Some("ssh") if user.is_some_and(|user| user.contains(':')) => invalid("it contains a password"),
        Some("https" | "http" | "ssh" | "file") => Ok(()),
        None if upstream.starts_with('/') || is_scp(upstream) => Ok(()),
        _ => invalid(
            "write `https://…`, `http://…`, `ssh://…`, `file://…`, `git@host:path` or an absolute path",
        ),
    }
}

/// Whether it is an address in `scp` form: `git@host:path`.
fn is_scp(text: &str) -> bool {
    let plain = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let Some((authority, path)) = text.split_once(':') else {
        return false;
    };
    let parts = authority.split_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    // A path that begins with two colons names a program.
    parts.0.is_none_or(plain) && plain(parts.1) && !path.is_empty() && !path.starts_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn repository_is_created_once_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let gate = Gate::open(&dir.path().join("gate"));
        assert!(gate.list().unwrap().is_empty());
        assert!(matches!(gate.repository("a"), Err(GateError::NoRepository { .. })));
        let made = gate.init("b", None).await.unwrap();
        let mirror = gate.init("a", Some("https://git.example/a.git")).await.unwrap();
        assert_eq!(gate.init("b", None).await.unwrap(), made);
        assert_eq!(gate.list().unwrap(), [mirror.clone(), made.clone()]);
        assert_eq!(gate.repository("a").unwrap(), mirror);
        assert_eq!(mirror.upstream().await.unwrap().as_deref(), Some("https://git.example/a.git"));
        assert_eq!(made.upstream().await.unwrap(), None);
        assert_eq!(gate.init("a", None).await.unwrap(), mirror);
        let error = gate.init("a", Some("https://git.example/b.git")).await.unwrap_err();
        assert!(error.to_string().contains("https://git.example/a.git"), "{error}");
        let files = fs::read_dir(dir.path().join("gate")).unwrap().count();
        assert_eq!(files, 2, "nothing unfinished is left");
    }

    #[test]
    fn names_that_are_paths_options_or_other_repositories_are_refused() {
        let gate = Gate::open("/nowhere".as_ref());
        let named = |name: &str| gate.named(name).is_ok();
        for name in ["a", "My-Project_1.x", "0", &"x".repeat(64)] {
            assert!(named(name), "{name}");
        }
        for name in ["", ".", "..", ".new-1", "-x", "a/b", "a b", "a\0", "a\n", "ä", "a.git", &"x".repeat(65)]
        {
            assert!(!named(name), "{name:?}");
        }
    }

    #[test]
    fn upstream_that_runs_a_program_or_has_a_password_is_refused() {
        for upstream in [
            "https://git.example/a.git",
            "http://127.0.0.1:8080/a",
            "ssh://git@git.example:22/a.git",
            "git@git.example:a/b.git",
            "git.example:a",
            "file:///a",
            "/a/b",
        ] {
            assert!(check_upstream(upstream).is_ok(), "{upstream}");
        }
        for upstream in [
            "",
            "a",
            "../a",
            "ext::sh -c touch% ran",
            "ext::touch",
            "fd::0",
            "--upload-pack=touch",
            "ssh://-oProxyCommand=touch/a",
            "-oProxyCommand=touch:a",
            "https://",
            "https://a.example/\n",
            "git://git.example/a",
            "https://me:hunter2@git.example/a",
            "https://hunter2@git.example/a",
            "ssh://me:hunter2@git.example/a",
        ] {
            let error = check_upstream(upstream).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
