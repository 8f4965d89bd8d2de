//! `init`: writes the files of a project, for its languages and its agent.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;

use crate::args::{ImageArgs, InitArgs, PackageClient};
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::settings::{Needs, NewFiles, Project};

use super::agent::agent_of;

/// A manifest, the Debian packages that its language needs in addition to those of the default
/// image, its package client if `allowlist packages` supports it, and its test command.
type Language = (&'static str, &'static [&'static str], Option<PackageClient>, &'static str);

const LANGUAGES: [Language; 10] = [
    ("Cargo.toml", &["cargo", "rustc"], Some(PackageClient::Cargo), "cargo test"),
    ("go.mod", &["golang-go"], Some(PackageClient::Go), "go test ./..."),
    ("package.json", &[], Some(PackageClient::Npm), "npm test"),
    ("pyproject.toml", &[], Some(PackageClient::Pip), "python3 -m unittest"),
    ("requirements.txt", &[], Some(PackageClient::Pip), "python3 -m unittest"),
    ("CMakeLists.txt", &["cmake"], None, "cmake -B build"),
    ("pom.xml", &["default-jdk-headless", "maven"], Some(PackageClient::Maven), "mvn test"),
    ("build.gradle", &["default-jdk-headless", "gradle"], None, "gradle test"),
    ("Gemfile", &["bundler", "ruby-dev"], None, "bundle exec rake"),
    ("composer.json", &["composer", "php-cli"], None, "composer test"),
];

/// Writes the missing files to the current folder, and trusts them.
pub(crate) fn init(
    args: &InitArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    init_where(args, || Project::load_here(environment, printer), environment, printer)
}

/// The same, with `read` reading the settings before and after the files are written.
fn init_where(
    args: &InitArgs,
    read: impl Fn() -> Result<Project, Failure>,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let project = read()?;
    let agent = agent_of(args.agent.as_deref(), &project)?;
    let has = |name: &str| project.resolver.find(&project.root.join(name)).is_ok_and(|found| found.is_file());
    let found: Vec<_> = LANGUAGES.iter().filter(|(manifest, ..)| has(manifest)).collect();
    let packages: Vec<&str> = found.iter().flat_map(|(_, packages, ..)| packages.iter().copied()).collect();
    let files = NewFiles::new(&project, &agent, &packages, environment);
    let mut written = Vec::new();
    for file in files.all {
        let path = &file.path;
        let shown = path.strip_prefix(&project.root).unwrap_or(path).display().to_string();
        let shown = sanitize_name(&shown);
        if args.dry_run {
            printer.line(format_args!("==> {shown} <==\n{}", file.content));
            continue;
        }
        if write_new(&project, path, &file.content)? {
            printer.line(format_args!("wrote {shown}"));
            written.extend(file.input());
        } else {
            printer.line(format_args!("{shown} already exists and was not changed"));
        }
    }
    if args.dry_run {
        return Ok(ExitStatus::Success);
    }
    let project = read()?;
    let review = || project.review(Some(Needs { image: Some(&ImageArgs::default()), allowlist: None }));
    review().only(&written).trust(&project.trust_store())?;
    let rest = !review().is_recorded();
    let key = agent.credentials().map(|(variable, _)| variable).collect::<Vec<_>>();
    let has_key = key.iter().any(|variable| environment.text(variable).is_some());
    let export = if has_key {
        String::new()
    } else {
        format!("`export {}=…`, then ", key.first().unwrap_or(&"KEY"))
    };
    let trust = if rest { "`sandbox trust`, then " } else { "" };
    let clients: BTreeSet<String> =
        found.iter().filter_map(|(_, _, client, _)| Some(client.as_ref()?.to_string())).collect();
    if !clients.is_empty() {
        let clients = clients.into_iter().collect::<Vec<_>>().join(" ");
        printer.message(format_args!(
            "for tasks that fetch dependencies: {trust}`sandbox allowlist packages {clients}`"
        ));
    }
    let test = found.first().map_or("make", |(.., test)| test);
    printer.message(format_args!("next: {trust}{export}`sandbox agent \"…\"`, or `sandbox run -- {test}`"));
    Ok(ExitStatus::Success)
}

/// Returns `false` if the file already exists.
fn write_new(project: &Project, path: &Path, content: &str) -> Result<bool, Failure> {
    let folder = path.parent().unwrap_or(&project.root);
    let name = path.file_name().unwrap_or(OsStr::new("sandbox.yaml"));
    let writing = || format!("write `{}`", path.display());
    let folder = project.resolver.make_folder(folder)?;
    if folder.names()?.iter().any(|there| there == name) {
        return Ok(false);
    }
    let mut file = folder.create_new(name, 0o644)?;
    file.write_all(content.as_bytes()).map_err(Failure::doing(writing()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::trust::Trust;

    fn init_in(root: &Path, state: &Path) -> Result<ExitStatus, Failure> {
        init_for(None, root, &environment(state))
    }

    fn init_for(agent: Option<&str>, root: &Path, environment: &Environment) -> Result<ExitStatus, Failure> {
        let read = || Project::load_at(root, None, environment, Printer::new(0, true));
        let agent = agent.map(str::to_owned);
        init_where(&InitArgs { agent, dry_run: false }, read, environment, Printer::new(0, true))
    }

    #[test]
    fn allowlist_has_the_apis_with_a_key() {
        for (keys, expected) in [
            (vec![], "presets: [anthropic]"),
            (vec![("OPENAI_API_KEY", "x")], "presets: [openai]"),
            (vec![("OPENAI_API_KEY", "x"), ("ANTHROPIC_API_KEY", "y")], "presets: [anthropic, openai]"),
        ] {
            let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let root = root.path().canonicalize().unwrap();
            let usual = [("HOME", "/no/such/home"), ("XDG_STATE_HOME", state.path().to_str().unwrap())];
            let environment = keys.iter().copied().chain(usual).collect();
            init_for(Some("opencode"), &root, &environment).unwrap();
            let policy = fs::read_to_string(root.join(".sandbox/network-allowlist.yaml")).unwrap();
            assert!(policy.contains(expected), "{keys:?}: {policy}");
        }
    }

    fn environment(state: &Path) -> Environment {
        Environment::from([("HOME", "/no/such/home"), ("XDG_STATE_HOME", state.to_str().unwrap())])
    }

    fn is_trusted(root: &Path, state: &Path) -> bool {
        let project = Project::load_at(root, None, &environment(state), Printer::new(0, true)).unwrap();
        let needs = Needs { image: Some(&ImageArgs::default()), allowlist: None };
        project.trusted(Some(needs), &Trust::Recorded, Printer::new(0, true)).is_ok()
    }

    #[test]
    fn dry_run_writes_nothing() {
        let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = root.path().canonicalize().unwrap();
        let environment = environment(state.path());
        let read = || Project::load_at(&root, None, &environment, Printer::new(0, true));
        for (dry_run, expected) in [(true, false), (false, true)] {
            let args = InitArgs { agent: None, dry_run };
            init_where(&args, read, &environment, Printer::new(0, true)).unwrap();
            assert_eq!(root.join(".sandbox").exists(), expected);
        }
    }

    #[test]
    fn written_files_are_valid_and_trusted() {
        let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = root.path().canonicalize().unwrap();
        fs::write(root.join("Cargo.toml"), "").unwrap();
        init_in(&root, state.path()).unwrap();
        assert!(is_trusted(&root, state.path()));
        let read = |name: &str| fs::read_to_string(root.join(".sandbox").join(name)).unwrap();
        let dockerfile = read("container/Dockerfile");
        assert!(
            dockerfile.contains("ripgrep cargo rustc") && dockerfile.contains("npm install"),
            "{dockerfile}"
        );
        assert!(read("network-allowlist.yaml").contains("presets: [anthropic]"));
        // A second call changes nothing; files that changed meanwhile are kept and not trusted.
        fs::write(root.join(".sandbox/network-allowlist.yaml"), "domains: [evil.example]").unwrap();
        init_in(&root, state.path()).unwrap();
        assert_eq!(read("network-allowlist.yaml"), "domains: [evil.example]");
        assert!(!is_trusted(&root, state.path()));
    }

    #[test]
    fn file_replaced_by_a_task_is_not_trusted() {
        for (name, planted) in [
            ("sandbox.yaml", "network_sandbox: false"),
            ("network-allowlist.yaml", "domains: ['*']"),
            ("container/Dockerfile", "FROM evil"),
            ("container/planted", "x"),
        ] {
            let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let root = root.path().canonicalize().unwrap();
            let environment = environment(state.path());
            let read = || {
                // On the second read, a task has already replaced a file.
                let file = root.join(".sandbox").join(name);
                if root.join(".sandbox").exists() {
                    fs::write(file, planted).unwrap();
                }
                Project::load_at(&root, None, &environment, Printer::new(0, true))
            };
            init_where(&InitArgs { agent: None, dry_run: false }, read, &environment, Printer::new(0, true))
                .unwrap();
            assert!(!is_trusted(&root, state.path()), "{name}");
        }
    }

    #[test]
    fn existing_files_are_neither_changed_nor_trusted() {
        let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join(".sandbox/container")).unwrap();
        fs::write(root.join(".sandbox/container/planted"), "x").unwrap();
        init_in(&root, state.path()).unwrap();
        assert!(!is_trusted(&root, state.path()), "the folder of the Dockerfile was not ours");

        // A link does not redirect the write.
        let (other, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(elsewhere.path(), other.path().join(".sandbox")).unwrap();
        assert!(init_in(&other.path().canonicalize().unwrap(), state.path()).is_err());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
