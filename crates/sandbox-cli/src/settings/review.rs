//! Nothing that a task could have written is obeyed before the user trusted it.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _};
use std::ops::Deref;
use std::path::Path;

use sandbox::ImageSource;
use sandbox::host_path::Found;

use super::Project;
use super::defaults::AgentDefaults;
use crate::args::ImageArgs;
use crate::config::{ConfigFile, raised_limits};
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::trust::{
    Digest, Input, Role, Store, Trust, build_policy_request, build_request, configuration_requests,
    policy_request,
};

/// Which files of a project a command may obey.
#[derive(Debug, Default)]
pub(super) enum Obeyed {
    /// All: the command looks at the project, and nothing follows from what it finds.
    #[default]
    LookedAt,
    /// Those with these digests, and all that no task can have written.
    Trusted(BTreeSet<Digest>),
}

/// A project of which only what was trusted is obeyed: what every command has that acts.
#[derive(Debug)]
pub(crate) struct TrustedProject(Project);

impl TrustedProject {
    /// The same, with `defaults` for what no file says.
    pub(super) fn with_defaults(self, defaults: AgentDefaults, file: ConfigFile) -> Self {
        Self(Project { file, defaults, ..self.0 })
    }
}

impl Deref for TrustedProject {
    type Target = Project;

    fn deref(&self) -> &Project {
        &self.0
    }
}

/// Which files a command obeys besides the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs<'a> {
    /// The image, as the flags name it; none where nothing is run.
    pub(crate) image: Option<&'a ImageArgs>,
    /// The allowlist, where a flag names one.
    pub(crate) allowlist: Option<&'a Path>,
}

/// Files that a task could have written, and what they ask for.
#[derive(Debug, Default)]
pub(crate) struct Review {
    requests: Vec<(Input, Vec<String>)>,
}

impl Review {
    /// What `--trust=DIGEST` names.
    pub(crate) fn digest(&self) -> Digest {
        let inputs: Vec<Input> = self.requests.iter().map(|(input, _)| input.clone()).collect();
        Digest::of_all(&inputs)
    }

    /// Whether nothing is asked for that needs trust.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Each file with what it asks for.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&Path, &[String])> {
        self.requests.iter().map(|(input, requests)| (input.path.as_path(), requests.as_slice()))
    }

    /// For people.
    pub(crate) fn text(&self, root: &Path) -> String {
        let lines = self.requests().flat_map(|(path, requests)| {
            let shown = path.strip_prefix(root).unwrap_or(path).display().to_string();
            // One line each, whatever a name in it says.
            let requests = requests.iter().map(|request| format!("    - {}", sanitize_name(request)));
            std::iter::once(format!("  {}:", sanitize_name(&shown))).chain(requests)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Whether all of it is on record as trusted.
    pub(crate) fn is_recorded(&self, store: &Store) -> bool {
        self.requests.iter().all(|(input, _)| store.is_trusted(input))
    }

    /// Notes all of it as trusted.
    pub(crate) fn record(&self, store: &Store) -> Result<(), Failure> {
        let recorded = self.requests.iter().try_for_each(|(input, _)| store.record(input));
        recorded.map_err(Failure::doing("record what is trusted"))
    }
}

impl Project {
    /// The record of what is trusted of this project.
    pub(crate) fn trust_store(&self) -> Store {
        Store::new(self.places.trust(&self.key))
    }

    /// What the files that a command needs ask for, as far as a task could have written them. A file that cannot be read asks for
    /// nothing: reading it again is an error.
    pub(crate) fn review(&self, needs: Option<Needs<'_>>) -> Review {
        let mut review = Review::default();
        let is_inside = |path: &Path| {
            let found = self.resolver.find(path);
            found.is_ok_and(|found| found.path().starts_with(&self.root))
        };
        let store = self.trust_store();
        for (input, file) in &self.config_inputs {
            let mut requests = configuration_requests(file, is_inside);
            let raised = raised_limits(file.resource_limits, self.user_limits);
            if !raised.is_empty() {
                requests.push(format!("use more than your own limits of {} permit", raised.join(", ")));
            }
            if requests.is_empty() && store.knows(&input.path) {
                requests.push("change settings that you trusted".to_owned());
            }
            if !requests.is_empty() {
                review.requests.push((input.clone(), requests));
            }
        }
        let roots = self.file.upstream.extra_roots.as_ref();
        if let Some(Ok((Some(input), _))) = roots.map(|path| self.roots(path)) {
            let request = "trust its certificate authorities".to_owned();
            review.requests.push((input, vec![request]));
        }
        let Some(needs) = needs else {
            return review;
        };
        let allowlist = needs.allowlist.map_or_else(|| self.allowlist_path(), Path::to_owned);
        if self.is_sandboxed()
            && let Ok(Some((Some(input), policy))) = self.policy(&allowlist)
            && let Some(request) = policy_request(&policy)
        {
            review.requests.push((input, vec![request]));
        }
        let Some(image) = needs.image else {
            return review;
        };
        if let Ok((Some(input), image)) = self.image_input(image)
            && let Some(request) = build_request(&image)
        {
            review.requests.push((input, vec![request]));
        }
        if let Ok((Some(input), network)) = self.build_network_input()
            && let Some(request) = build_policy_request(&network)
        {
            review.requests.push((input, vec![request]));
        }
        review
    }

    /// The same project, of which only what was trusted is obeyed from now on: by the record, by the flag, or by an answer on the terminal.
    pub(crate) fn trusted(
        mut self,
        needs: Option<Needs<'_>>,
        trust: &Trust,
        printer: Printer,
    ) -> Result<TrustedProject, Failure> {
        if needs.is_some_and(|needs| needs.image.is_some()) && self.current != self.root {
            let root = self.root.display().to_string();
            printer.message(format_args!("project {}, from the folder above", sanitize_name(&root)));
        }
        let review = self.review(needs);
        let store = self.trust_store();
        let agreed = match trust {
            Trust::Now => true,
            Trust::Digest(digest) => *digest == review.digest(),
            Trust::Recorded => review.is_recorded(&store),
        };
        if !agreed && !review.is_empty() {
            if matches!(trust, Trust::Recorded) && printer.can_ask() {
                self.ask(&review, &store, printer)?;
            } else {
                return Err(self.refusal(&review, &store, trust));
            }
        }
        let inside = review.requests().filter_map(|(path, _)| path.strip_prefix(&self.root).ok());
        self.trusted_paths = inside.map(Path::to_owned).collect();
        let accepted = review.requests.into_iter().map(|(input, _)| input.digest);
        let harmless = self.config_inputs.iter().map(|(input, _)| input.digest.clone());
        self.obeyed = Obeyed::Trusted(accepted.chain(harmless).collect());
        Ok(TrustedProject(self))
    }

    /// Lets a command obey what was found, unless a task could have written it and the user did not trust it.
    pub(super) fn obey(&self, input: Option<&Input>, asks_for_something: bool) -> Result<(), Failure> {
        let (Some(input), Obeyed::Trusted(accepted)) = (input, &self.obeyed) else {
            return Ok(());
        };
        if !asks_for_something || accepted.contains(&input.digest) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "`{}` changed while it was reviewed, or this command does not review it",
            self.shown(&input.path)
        ))
        .with_hint("run `sandbox trust`, then this command again"))
    }

    fn ask(&self, review: &Review, store: &Store, printer: Printer) -> Result<(), Failure> {
        printer.message(format_args!(
            "{}, and ask to:\n{}",
            Self::why(review, store),
            review.text(&self.root)
        ));
        printer.prompt("Trust them as they are now? [y/N] ");
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(Failure::doing("read the answer"))?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return review.record(store);
        }
        Err(Failure::new("not trusted, so nothing was started"))
    }

    fn refusal(&self, review: &Review, store: &Store, trust: &Trust) -> Failure {
        let why = match trust {
            Trust::Digest(_) => format!(
                "these files of the project do not have the digest that --trust names; theirs is {}",
                review.digest()
            ),
            _ => Self::why(review, store),
        };
        Failure::new(format!("{why}, and ask to:\n{}", review.text(&self.root))).with_hint(format!(
            "read them, then run `sandbox trust`; for one run, or without a terminal: --trust, or --trust={}",
            review.digest()
        ))
    }

    fn why(review: &Review, store: &Store) -> String {
        let changed =
            review.requests.iter().any(|(input, _)| !store.is_trusted(input) && store.knows(&input.path));
        if changed {
            "these files of the project changed since you trusted them".to_owned()
        } else {
            "these files of the project are not trusted yet".to_owned()
        }
    }

    /// The input that `found` is, where a task could have written it.
    pub(super) fn input(found: &Found, role: Role, bytes: &[u8]) -> Option<Input> {
        found.is_untrusted().then(|| Input::new(role, found.path(), bytes))
    }

    /// The same of an image: the Dockerfile and the files that it copies from.
    pub(super) fn image_files(dockerfile: &Found, image: &ImageSource) -> Option<Input> {
        let ImageSource::Build { dockerfile: text, context_files, .. } = image else {
            return None;
        };
        let files = context_files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        let all = std::iter::once(("", text.as_slice())).chain(files);
        Some(Input::of_files(Role::Image, dockerfile.path(), all))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::fixtures::{image_args, project};
    use super::*;
    use crate::args::PolicyArgs;

    /// What a configuration in a work tree of its own asks for.
    fn requests(config: &str) -> Vec<String> {
        requests_above(config, "")
    }

    /// The same where the user's own file is `user`.
    fn requests_above(config: &str, user: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        fs::create_dir(real.join(".sandbox")).unwrap();
        fs::create_dir(real.join("data")).unwrap();
        let path = real.join(".sandbox/sandbox.yaml");
        fs::write(&path, config).unwrap();
        let mut project = project(&real, Path::new("/no/such/state"));
        let (file, found, text) = ConfigFile::read(&project.resolver, &path, "x").unwrap().unwrap();
        let input = Project::input(&found, Role::Configuration, text.as_bytes());
        project.config_inputs = input.map(|input| (input, file.clone())).into_iter().collect();
        project.file = file;
        project.user_limits = ConfigFile::of_text(user).resource_limits;
        let review = project.review(None);
        review.requests().flat_map(|(_, requests)| requests.to_vec()).collect()
    }

    #[test]
    fn what_is_harmless_needs_no_trust() {
        for config in [
            "",
            "image: x\nresource_limits: {memory: 1g}\nprotected_paths: [ci]\nenv: {A: b}",
            "mounts: ['../data:/data']\nworkspace: copy\nnetwork_sandbox: true",
        ] {
            assert_eq!(requests(config), Vec::<String>::new(), "{config}");
        }
    }

    #[test]
    fn each_key_that_asks_for_more_is_a_request() {
        for (config, words) in [
            ("network_sandbox: false", "turn the network sandbox off"),
            ("protect_workspace: false", "on their own"),
            ("workspace: direct", "instead of on a copy"),
            ("engine: unix:///x.sock", "use the engine unix:///x.sock"),
            ("upstream: {dns: 192.0.2.1}", "192.0.2.1"),
            ("upstream: {allow_addresses: [10.0.0.0/8]}", "private networks 10.0.0.0/8"),
            ("services: {db: {tcp: '127.0.0.1:5432'}}", "connect to the service db at 127.0.0.1:5432"),
            ("gate: [project]", "fetch from your gate's repositories project"),
            ("mounts: ['/etc/ssl:/x:ro']", "read `/etc/ssl` of this machine, at /x"),
            ("mounts: ['../../x:/x']", "read and write `"),
            ("dockerfile: /etc/hosts", "build an image from `/etc/hosts`"),
            ("context: /etc", "build an image from `/etc`"),
            ("build: {network: host}", "on this machine's network"),
            ("env: {A: !env MINE}", "read your variables MINE"),
            (
                "env: {OPENAI_API_KEY: sk-theirs, A: b}",
                "give the task OPENAI_API_KEY of the project's own instead of yours",
            ),
            ("pass_env: [MINE]", "read your variables MINE"),
            (
                "masked_secrets: {T: {scopes: [a.example], headers: [x]}}",
                "use the secret T for requests to a.example",
            ),
            (
                "masked_secrets: {T: {value: !command [op, read, 'a b'], scopes: [a.example], headers: [x]}}",
                r#"run `op read "a b"` on this machine, for the secret T in requests to a.example"#,
            ),
            (
                "masked_secrets: {T: {value: !file /run/t, scopes: [a.example], headers: [x]}}",
                "read `/run/t` of this machine, for the secret T",
            ),
            (
                "masked_secrets: {T: {value: !keyring t, scopes: [a.example], headers: [x]}}",
                "read the key `t` of your keyring, for the secret T",
            ),
            ("logins: {claude: {}}", "use your login of claude for requests to api.anthropic.com"),
            (
                "logins: {codex: {file: /x/auth.json, token_url: 'https://b.example/t', scopes: [a.example]}}",
                "use your login of codex in `/x/auth.json` for requests to a.example, refreshed at https://b.example/t",
            ),
            (
                "signing_credentials: {K: {preset: aws, access_key_id: x, secret_access_key: !command [op]}}",
                "run `op` on this machine, sign requests to ",
            ),
        ] {
            let found = requests(config);
            assert!(matches!(found.as_slice(), [only] if only.contains(words)), "{config}: {found:?}");
        }
    }

    #[test]
    fn limits_above_the_users_own_are_a_request() {
        let user = "resource_limits: {memory: 1g, cpus: 2, pids_limit: 100, timeout: 10m}";
        for limits in ["{}", "{memory: 1g, cpus: 1, timeout: 5m}", "{disk: 9g}"] {
            let config = format!("resource_limits: {limits}");
            assert_eq!(requests_above(&config, user), Vec::<String>::new(), "{limits}");
        }
        assert_eq!(
            requests_above("resource_limits: {memory: 2g, pids_limit: 101, cpus: 2, timeout: 11m}", user),
            ["use more than your own limits of timeout, memory, pids_limit permit"]
        );
    }

    #[test]
    fn a_policy_asks_for_what_its_vendor_tools_reach() {
        for (tools, expected) in [
            ("{}", "reach a.example"),
            ("{web_search: policy}", "reach a.example"),
            (
                "{web_search: any, mcp: any}",
                "reach a.example, and through tools of a model's vendor (mcp, web_search) whatever these reach",
            ),
        ] {
            let yaml = format!("domains: [a.example]\nvendor_tools: {tools}");
            let policy = allowlist::Allowlist::from_yaml(&yaml, "x").unwrap();
            assert_eq!(policy_request(&policy).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_request_is_one_line_and_moves_no_cursor() {
        let review = Review {
            requests: vec![(
                Input::new(Role::Allowlist, Path::new("/w/a\n  b"), b""),
                vec!["read `/x\n    - nothing\u{1b}[2J`".to_owned()],
            )],
        };
        let text = review.text(Path::new("/w"));
        assert_eq!(text, "  a\\n  b:\n    - read `/x\\n    - nothing\\u{1b}[2J`");
    }

    #[test]
    fn a_file_that_was_not_reviewed_is_not_obeyed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join(".sandbox")).unwrap();
        let policy = root.join(".sandbox/network-allowlist.yaml");
        fs::write(&policy, "domains: [a.example]").unwrap();
        let printer = Printer::new(0, true);
        let load = || project(&root, Path::new("/no/such/state"));
        let image = image_args();
        let needs = Needs { image: Some(&image), allowlist: None };
        let trusted = load().trusted(Some(needs), &Trust::Now, printer).unwrap();
        assert!(trusted.allowlist(&PolicyArgs::default(), printer).is_ok());
        // It changes after it was reviewed.
        fs::write(&policy, "domains: ['*']").unwrap();
        assert!(trusted.allowlist(&PolicyArgs::default(), printer).is_err());
        // A command that does not review it cannot obey it.
        let configured = load().trusted(None, &Trust::Now, printer).unwrap();
        assert!(configured.allowlist(&PolicyArgs::default(), printer).is_err());
        // What permits nothing asks for nothing.
        fs::write(&policy, "domains: []").unwrap();
        assert!(configured.allowlist(&PolicyArgs::default(), printer).is_ok());
        assert!(load().trusted(Some(needs), &Trust::Recorded, printer).is_ok());
        fs::write(&policy, "domains: [a.example]").unwrap();
        assert!(load().trusted(Some(needs), &Trust::Recorded, printer).is_err());
    }
}
