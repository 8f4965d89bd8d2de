//! Files that a task could have written are obeyed only after the user trusted them.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::Path;

use sandbox::ImageSource;
use sandbox::host_path::Found;

use super::Project;
use super::defaults::AgentDefaults;
use crate::args::ImageArgs;
use crate::config::{ConfigFile, Folder};
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::trust::{
    Changes, Digest, Input, Place, Record, Rights, Role, Store, Trust, build_policy_rights,
    configuration_rights, image_rights, policy_rights,
};

/// Which files of a project a command may obey.
#[derive(Debug, Default)]
pub(super) enum Obeyed {
    /// All: the command only inspects the project, without effects.
    #[default]
    LookedAt,
    /// Those with these digests, and files that no task can have written.
    Trusted(BTreeSet<Digest>),
}

/// A project of which only trusted files are obeyed, as commands with effects need it.
#[derive(Debug)]
pub(crate) struct TrustedProject(Project);

impl TrustedProject {
    /// The same, with `defaults` for settings that no file has.
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

/// The files that a command obeys in addition to the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs<'a> {
    /// The image flags; `None` if nothing is run.
    pub(crate) image: Option<&'a ImageArgs>,
    /// The allowlist named by a flag.
    pub(crate) allowlist: Option<&'a Path>,
}

/// Files that a task could have written and that need trust, with the rights that they give.
#[derive(Debug)]
pub(crate) struct Review {
    /// The digest of all reviewed files, so that it does not depend on earlier trust.
    digest: Digest,
    files: Vec<(Input, Rights)>,
    /// Places with trusted files where nothing needs trust any more.
    gone: Vec<Place>,
    /// The record of earlier trust.
    record: Record,
}

impl Review {
    /// The digest for `--trust=DIGEST`.
    pub(crate) fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Whether nothing needs trust.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The changes since the last trusted version; paths are shown relative to `root`.
    pub(crate) fn changes(&self, root: &Path) -> Changes {
        let shown = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        let mut changes = Changes::default();
        for (input, rights) in &self.files {
            let (trusted, formerly) = (self.record.at(&input.place()), self.record.formerly(input));
            changes.add(shown(&input.path), &input.digest, rights, trusted, formerly);
        }
        for place in &self.gone {
            if let Some(trusted) = self.record.at(place) {
                changes.add_gone(shown(&place.path), trusted);
            }
        }
        changes
    }

    /// Whether all of it is recorded as trusted.
    pub(crate) fn is_recorded(&self) -> bool {
        self.files.iter().all(|(input, rights)| self.record.trusts(input, rights))
    }

    /// Whether nothing in it still needs the user's consent.
    fn is_agreed(&self, trust: &Trust) -> bool {
        self.is_empty()
            || match trust {
                Trust::Now => true,
                Trust::Digest(digest) => digest == self.digest(),
                Trust::Recorded => self.is_recorded(),
            }
    }

    /// Records all of it as trusted.
    pub(crate) fn trust(&self, store: &Store) -> Result<(), Failure> {
        if self.files.is_empty() && self.gone.is_empty() {
            return Ok(());
        }
        let files = self.files.iter().map(|(input, rights)| (input, rights));
        store.trust(files, &self.gone).map_err(Failure::doing("record the trust"))
    }

    /// The part of it that equals `inputs`, byte for byte.
    pub(crate) fn only(mut self, inputs: &[Input]) -> Self {
        self.files.retain(|(input, _)| inputs.contains(input));
        self.gone.clear();
        self
    }
}

/// The scope of a review: files that a task could have written, and places where one could be.
#[derive(Debug, Default)]
struct Looked {
    files: Vec<(Input, Rights)>,
    places: Vec<Place>,
}

impl Looked {
    /// Adds a file, or rights to one.
    fn add(&mut self, input: Input, rights: Rights) {
        self.places.push(input.place());
        match self.files.iter_mut().find(|(other, _)| *other == input) {
            Some((_, known)) => known.extend(rights),
            None => self.files.push((input, rights)),
        }
    }

    /// The files that need trust: because of their rights, or as a configuration that replaces a
    /// trusted one, whose limits may be gone; and those that are trusted.
    fn against(self, record: Record) -> Review {
        let digest = Digest::of_all(self.files.iter().map(|(input, _)| input));
        let replaces =
            |input: &Input| input.role == Role::Configuration && record.at(&input.place()).is_some();
        let mut files = self.files;
        files
            .retain(|(input, rights)| rights.need_trust() || record.trusts(input, rights) || replaces(input));
        let is_there = |place: &Place| files.iter().any(|(input, _)| input.place() == *place);
        let mut gone = self.places;
        gone.retain(|place| record.at(place).is_some() && !is_there(place));
        gone.sort_unstable();
        gone.dedup();
        Review { digest, files, gone, record }
    }
}

impl Project {
    /// The trust record of this project.
    pub(crate) fn trust_store(&self) -> Store {
        Store::new(self.places.trust().join(&self.key), &self.root)
    }

    /// The rights given by the files that a command needs, as far as a task could have written
    /// them. An unreadable file requests nothing, because reading it again is an error.
    pub(crate) fn review(&self, needs: Option<Needs<'_>>) -> Review {
        let record = self.trust_store().record();
        let mut looked = Looked::default();
        self.review_configuration(&mut looked);
        if self.config_path.as_ref().is_none_or(|path| *path == Folder::of(&self.root).config()) {
            // Only the configuration names their places.
            looked.places.extend(record.places(Role::Roots));
        }
        if let Some(needs) = needs {
            let allowlist = needs.allowlist.map_or_else(|| self.allowlist_path(), Path::to_owned);
            if self.is_sandboxed() {
                self.review_allowlist(&allowlist, &mut looked);
            }
            if let Some(image) = needs.image {
                self.review_image(image, &mut looked);
            }
        }
        looked.against(record)
    }

    fn review_configuration(&self, looked: &mut Looked) {
        let is_inside = |path: &Path| {
            let found = self.resolver.find(path);
            found.is_ok_and(|found| found.path().starts_with(&self.root))
        };
        for (input, file) in &self.config_inputs {
            looked.add(input.clone(), configuration_rights(file, &self.user_file, is_inside));
        }
        if self.config_path.is_none() {
            // A missing configuration is reviewed as an empty one: it may replace one with limits.
            let input = Input::new(Role::Configuration, &self.folder.config(), b"");
            looked.add(input, configuration_rights(&ConfigFile::default(), &self.user_file, is_inside));
        }
        let roots = self.file.upstream.extra_roots.as_ref();
        if let Some(Ok((Some(input), _))) = roots.map(|path| self.roots(path)) {
            let mut rights = Rights::default();
            rights
                .ask(format!("trust its certificate authorities, of the content {}", input.content.short()));
            looked.add(input, rights);
        }
    }

    fn review_allowlist(&self, path: &Path, looked: &mut Looked) {
        match self.policy(path) {
            Ok(Some((Some(input), policy))) => looked.add(input, policy_rights(&policy)),
            Ok(None) => looked.places.push(Place { role: Role::Allowlist, path: path.to_owned() }),
            Ok(Some((None, _))) | Err(_) => {}
        }
    }

    fn review_image(&self, args: &ImageArgs, looked: &mut Looked) {
        if let Ok((Some(input), image)) = self.image_input(args) {
            looked.add(input, image_rights(&image));
        }
        if !args.names_image() {
            looked.places.push(Place { role: Role::Image, path: self.folder.dockerfile() });
        }
        match self.build_network_input() {
            Ok((Some(input), network)) => looked.add(input, build_policy_rights(&network)),
            Ok((None, _)) if self.file.build.is_none() => {
                looked.places.push(Place { role: Role::Allowlist, path: self.folder.build_allowlist() });
            }
            _ => {}
        }
    }

    /// Trusts the files that are trusted in the project in `root`, which `known` reviews: the same
    /// bytes at the same place of the project, with no additional rights.
    pub(crate) fn trust_as_in(&self, known: &Review, root: &Path, needs: Needs<'_>) -> Result<(), Failure> {
        let place = |root: &Path, input: &Input| input.path.strip_prefix(root).ok().map(Path::to_owned);
        let [here, there] = [&self.root, root].map(|root| format!("`{}/", root.display()));
        // Such a path leads out of the project, to another place than in the other one.
        let moved = |line: &String| {
            if line.contains("/../") || line.contains("/..`") {
                line.clone()
            } else {
                line.replace(&there, &here)
            }
        };
        // A right may name a place of the project.
        let agreed = |rights: &Rights| -> BTreeSet<String> {
            rights.lines().iter().flat_map(|line| [line.clone(), moved(line)]).collect()
        };
        let is_known = |(input, rights): &(Input, Rights)| {
            known.files.iter().any(|(theirs, their_rights)| {
                (theirs.role, &theirs.content) == (input.role, &input.content)
                    && place(&self.root, input).is_some_and(|here| place(root, theirs) == Some(here))
                    && known.record.trusts(theirs, their_rights)
                    && rights.are_among(&agreed(their_rights))
            })
        };
        let mut review = self.review(Some(needs));
        // Files that were trusted here may be stricter.
        let is_free = |(input, _): &(Input, Rights)| {
            review.record.at(&input.place()).is_none() && review.record.formerly(input).is_none()
        };
        review.files.retain(|file| is_known(file) && is_free(file));
        review.gone.clear();
        review.trust(&self.trust_store())
    }

    /// The same project, of which from now on only trusted files are obeyed: by the record, by the
    /// flag, or by an answer on the terminal.
    pub(crate) fn trusted(
        mut self,
        needs: Option<Needs<'_>>,
        trust: &Trust,
        printer: Printer,
    ) -> Result<TrustedProject, Failure> {
        if needs.is_some_and(|needs| needs.image.is_some()) && self.current != self.root {
            let root = self.root.display().to_string();
            printer.message(format_args!("project {}, from a parent folder", sanitize_name(&root)));
        }
        let review = self.review(needs);
        if !review.is_agreed(trust) {
            if matches!(trust, Trust::Recorded) && printer.can_ask() {
                self.ask(&review, printer)?;
            } else {
                return Err(self.refusal(&review, trust));
            }
        }
        let inside = review.files.iter().filter_map(|(input, _)| input.path.strip_prefix(&self.root).ok());
        self.trusted_paths = inside.map(Path::to_owned).collect();
        self.obeyed = Obeyed::Trusted(review.files.into_iter().map(|(input, _)| input.digest).collect());
        Ok(TrustedProject(self))
    }

    /// The image of a run without flags, for commands that only inspect it: an existing image only
    /// if it was trusted.
    pub(crate) fn known_image(&self, trust: &Trust) -> Option<ImageSource> {
        let args = ImageArgs::default();
        let image = self.image(&args).ok()?;
        let needs = Needs { image: Some(&args), allowlist: None };
        let is_known =
            matches!(image, ImageSource::Build { .. }) || self.review(Some(needs)).is_agreed(trust);
        is_known.then_some(image)
    }

    /// Allows a command to obey a file, unless a task could have written it and the user did not
    /// trust it.
    pub(super) fn obey(&self, input: Option<&Input>, needs_trust: bool) -> Result<(), Failure> {
        let (Some(input), Obeyed::Trusted(accepted)) = (input, &self.obeyed) else {
            return Ok(());
        };
        if !needs_trust || accepted.contains(&input.digest) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "`{}` changed during the review, or is not reviewed by this command",
            self.shown(&input.path)
        ))
        .with_hint("run `sandbox trust`, then this command again"))
    }

    fn ask(&self, review: &Review, printer: Printer) -> Result<(), Failure> {
        printer.message(format_args!("{}{}", Self::why(review), self.asked(review)));
        if printer.agrees("Trust these files?")? {
            return review.trust(&self.trust_store());
        }
        Err(Failure::new("not trusted; nothing was started"))
    }

    /// The error if the files are not trusted.
    pub(crate) fn refusal(&self, review: &Review, trust: &Trust) -> Failure {
        let why = match trust {
            Trust::Digest(_) => {
                format!("the digest of these project files is {}, not the one in --trust", review.digest())
            }
            _ => Self::why(review).to_owned(),
        };
        Failure::new(format!("{why}{}", self.asked(review))).with_hint(format!(
            "review them, then run `sandbox trust`; for one run, or without a terminal, pass --trust or --trust={}",
            review.digest()
        ))
    }

    fn asked(&self, review: &Review) -> String {
        format!("; added (+) and removed (-) rights:\n{}", review.changes(&self.root).text(false))
    }

    fn why(review: &Review) -> &'static str {
        let is_known = |input: &Input| review.record.at(&input.place()).is_some();
        let changed = review
            .files
            .iter()
            .any(|(input, rights)| !review.record.trusts(input, rights) && is_known(input));
        if changed {
            "these project files, or the rights they give, changed since you trusted them"
        } else {
            "these project files are not trusted"
        }
    }

    /// The input of the trust review for `found`, if a task could have written it.
    pub(super) fn input(found: &Found, role: Role, bytes: &[u8]) -> Option<Input> {
        found.is_untrusted().then(|| Input::new(role, found.path(), bytes))
    }

    /// The same for an image: the Dockerfile and the files that it copies.
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

    use super::super::fixtures::project;
    use super::*;
    use crate::args::PolicyArgs;

    const NO_FLAG: ImageArgs =
        ImageArgs { image: None, dockerfile: None, context: None, max_image_age: None };
    const NEEDS: Needs<'static> = Needs { image: Some(&NO_FLAG), allowlist: None };

    /// A project with this configuration, and a folder for its record.
    struct Folder {
        root: tempfile::TempDir,
        state: tempfile::TempDir,
    }

    impl Folder {
        fn new(config: &str) -> Self {
            let folder = Self { root: tempfile::tempdir().unwrap(), state: tempfile::tempdir().unwrap() };
            fs::create_dir(folder.root.path().join(".sandbox")).unwrap();
            folder.write("sandbox.yaml", config);
            folder
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.root.path().join(".sandbox").join(name), text).unwrap();
        }

        fn project(&self) -> Project {
            let root = self.root.path().canonicalize().unwrap();
            let mut project = project(&root, self.state.path());
            let path = root.join(".sandbox/sandbox.yaml");
            if let Some((file, found, text)) = ConfigFile::read(&project.resolver, &path, "x").unwrap() {
                let input = Project::input(&found, Role::Configuration, text.as_bytes());
                project.config_inputs = input.map(|input| (input, file.clone())).into_iter().collect();
                project.config_path = Some(path);
                project.file = file;
            }
            project
        }

        fn trust(&self) {
            let project = self.project();
            project.review(Some(NEEDS)).trust(&project.trust_store()).unwrap();
        }

        /// The error of a refused command.
        fn refused(&self) -> Option<String> {
            let trusted = self.project().trusted(Some(NEEDS), &Trust::Recorded, Printer::new(0, true));
            trusted.err().map(|failure| failure.to_string())
        }
    }

    #[test]
    fn local_image_is_not_used_before_it_is_trusted() {
        let folder = Folder::new("image: of-mine");
        let refused = folder.refused().unwrap();
        assert!(refused.contains("+ use the local image `of-mine`"), "{refused}");
        // A command that did not review it cannot obey it either.
        let printer = Printer::new(0, true);
        let flag = ImageArgs { image: Some("flag".to_owned()), ..NO_FLAG };
        for needs in [None, Some(Needs { image: Some(&flag), allowlist: None })] {
            let project = folder.project().trusted(needs, &Trust::Recorded, printer).unwrap();
            assert_eq!(project.image(&flag).unwrap(), ImageSource::existing("flag"));
            assert!(project.image(&NO_FLAG).is_err());
        }
        folder.trust();
        let project = folder.project().trusted(Some(NEEDS), &Trust::Recorded, printer).unwrap();
        assert_eq!(project.image(&NO_FLAG).unwrap(), ImageSource::existing("of-mine"));
        // Without a configured image, the default image needs no trust.
        folder.write("sandbox.yaml", "");
        assert!(folder.project().trust_store().revoke().unwrap());
        let project = folder.project().trusted(Some(NEEDS), &Trust::Recorded, printer).unwrap();
        assert!(matches!(project.image(&NO_FLAG), Ok(ImageSource::Build { .. })));
    }

    #[test]
    fn only_the_last_trusted_version_is_obeyed() {
        let folder = Folder::new("pass_env: [A]");
        folder.write("network-allowlist.yaml", "domains: [a.example]");
        assert!(folder.refused().unwrap().starts_with("these project files are not trusted"));
        folder.trust();
        assert_eq!(folder.refused(), None);
        folder.write("network-allowlist.yaml", "domains: [b.example]");
        let refused = folder.refused().unwrap();
        assert!(refused.starts_with("these project files, or the rights they give, changed"), "{refused}");
        let (new, gone) =
            (refused.find("+ reach b.example").unwrap(), refused.find("- reach a.example").unwrap());
        assert!(new < gone && refused.contains("  rights: 1 new, 1 gone, 3 as before; "), "{refused}");
        folder.trust();
        assert_eq!(folder.refused(), None);
        folder.write("network-allowlist.yaml", "domains: [a.example]");
        let refused = folder.refused().unwrap();
        assert!(refused.contains(".yaml is an older version, which you trusted at 20"), "{refused}");
    }

    #[test]
    fn removed_file_loses_its_trust_after_the_next_review() {
        let folder = Folder::new("");
        folder.write("network-allowlist.yaml", "domains: [a.example]");
        folder.trust();
        let path = folder.root.path().join(".sandbox/network-allowlist.yaml");
        fs::remove_file(&path).unwrap();
        let project = folder.project();
        let text = project.review(Some(NEEDS)).changes(&project.root).text(false);
        assert!(text.contains("- reach a.example, any path: any method"), "{text}");
        folder.trust();
        folder.write("network-allowlist.yaml", "domains: [a.example]");
        assert!(folder.refused().is_some());
    }

    #[test]
    fn changed_certificate_authorities_need_trust() {
        let folder = Folder::new("upstream: {extra_roots: roots.pem}");
        let pem = |text: &str| folder.write("roots.pem", &format!("-----BEGIN CERTIFICATE-----\n{text}\n"));
        pem("theirs");
        folder.trust();
        assert_eq!(folder.refused(), None);
        pem("another's");
        assert!(folder.refused().unwrap().contains("+ trust its certificate authorities, of the content "));
    }

    #[test]
    fn trusted_file_remains_trusted_after_commands_that_ignore_it() {
        let folder = Folder::new("image: x");
        folder.trust();
        let flag = ImageArgs { image: Some("flag".to_owned()), ..NO_FLAG };
        for needs in [None, Some(Needs { image: Some(&flag), allowlist: None })] {
            let project = folder.project();
            let review = project.review(needs);
            assert_eq!(review.changes(&project.root).text(false).lines().count(), 1, "nothing goes");
            review.trust(&project.trust_store()).unwrap();
            assert_eq!(folder.refused(), None);
        }
    }

    #[test]
    fn digest_is_independent_of_earlier_trust() {
        let (one, other) = (Folder::new("pass_env: [A]"), Folder::new("pass_env: [A]"));
        let digest = |folder: &Folder| folder.project().review(Some(NEEDS)).digest().clone();
        let before = digest(&one);
        assert_ne!(before, digest(&other), "they are at different places");
        one.trust();
        assert_eq!(digest(&one), before);
        one.write("sandbox.yaml", "agent: codex");
        let harmless = digest(&one);
        assert!(one.project().trust_store().revoke().unwrap());
        assert_eq!(digest(&one), harmless);
    }

    #[test]
    fn configuration_without_a_former_limit_needs_trust() {
        let folder = Folder::new("resource_limits: {pids_limit: 9}\npass_env: [A]");
        folder.trust();
        folder.write("sandbox.yaml", "pass_env: []");
        let refused = folder.refused().unwrap();
        assert!(refused.contains("+ use unlimited memory, disk, processors, processes, time"), "{refused}");
        assert!(refused.contains("- use at most 9 processes"), "{refused}");
        folder.trust();
        assert_eq!(folder.refused(), None);
    }

    #[test]
    fn removed_configuration_is_reviewed_as_an_empty_one() {
        let folder = Folder::new("resource_limits: {pids_limit: 9}\npass_env: [A]");
        folder.trust();
        fs::remove_file(folder.root.path().join(".sandbox/sandbox.yaml")).unwrap();
        let refused = folder.refused().unwrap();
        assert!(refused.contains("+ use unlimited memory, disk, processors, processes, time"), "{refused}");
        assert!(refused.contains("- use at most 9 processes"), "{refused}");
        folder.trust();
        assert_eq!(folder.refused(), None);
        folder.write("sandbox.yaml", "resource_limits: {pids_limit: 9}\npass_env: [A]");
        assert!(folder.refused().unwrap().contains("+ read your variable `A`"));
        // If none was ever trusted, a missing one needs no trust.
        assert!(folder.project().trust_store().revoke().unwrap());
        fs::remove_file(folder.root.path().join(".sandbox/sandbox.yaml")).unwrap();
        assert_eq!(folder.refused(), None);
    }

    #[test]
    fn recorded_version_is_the_shown_one_despite_changes() {
        let folder = Folder::new("");
        folder.write("network-allowlist.yaml", "domains: [a.example]");
        let project = folder.project();
        let review = project.review(Some(NEEDS));
        folder.write("network-allowlist.yaml", "domains: ['*']");
        review.trust(&project.trust_store()).unwrap();
        assert!(folder.refused().unwrap().contains("+ reach *, any path: any method"));
        folder.write("network-allowlist.yaml", "domains: [a.example]");
        assert_eq!(folder.refused(), None);
    }

    #[test]
    fn local_image_is_looked_up_only_for_a_trusted_project() {
        let folder = Folder::new("image: of-mine");
        let known = |trust: &Trust| folder.project().known_image(trust);
        assert_eq!(known(&Trust::Recorded), None);
        assert_eq!(known(&Trust::Now), Some(ImageSource::existing("of-mine")));
        let digest = folder.project().review(Some(NEEDS)).digest().clone();
        assert_eq!(known(&Trust::Digest(digest)), Some(ImageSource::existing("of-mine")));
        folder.trust();
        assert_eq!(known(&Trust::Recorded), Some(ImageSource::existing("of-mine")));
        folder.write("sandbox.yaml", "image: another");
        assert_eq!(known(&Trust::Recorded), None);
        // A built image has its own name, which reveals nothing about the host.
        folder.write("sandbox.yaml", "dockerfile: Dockerfile");
        folder.write("Dockerfile", "FROM x");
        assert!(matches!(known(&Trust::Recorded), Some(ImageSource::Build { .. })));
    }

    #[test]
    fn policy_for_tasks_and_builds_has_the_rights_of_both() {
        let folder = Folder::new("build: {allowlist: network-allowlist.yaml}");
        folder.write("network-allowlist.yaml", "domains: [a.example]");
        let refused = folder.refused().unwrap();
        for line in ["+ reach a.example, any path", "+ image builds: reach a.example, any path"] {
            assert!(refused.contains(line), "{refused}");
        }
        folder.trust();
        let project = folder.project();
        let file = project.policy_file(None).unwrap();
        let changed = file.text().with(&[], &["b.example".parse().unwrap()]).unwrap();
        project.replace_policy(&file, &changed).unwrap().print(Printer::new(0, true));
        assert_eq!(folder.refused(), None, "it stays trusted for both");
    }

    #[test]
    fn unreviewed_file_is_not_obeyed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join(".sandbox")).unwrap();
        let policy = root.join(".sandbox/network-allowlist.yaml");
        fs::write(&policy, "domains: [a.example]").unwrap();
        let printer = Printer::new(0, true);
        let load = || project(&root, Path::new("/no/such/state"));
        let trusted = load().trusted(Some(NEEDS), &Trust::Now, printer).unwrap();
        assert!(trusted.allowlist(&PolicyArgs::default(), printer).is_ok());
        // It changes after it was reviewed.
        fs::write(&policy, "domains: ['*']").unwrap();
        assert!(trusted.allowlist(&PolicyArgs::default(), printer).is_err());
        // A command that does not review it cannot obey it.
        let configured = load().trusted(None, &Trust::Now, printer).unwrap();
        assert!(configured.allowlist(&PolicyArgs::default(), printer).is_err());
        // A policy that permits nothing needs no trust.
        fs::write(&policy, "domains: []").unwrap();
        assert!(configured.allowlist(&PolicyArgs::default(), printer).is_ok());
        assert!(load().trusted(Some(NEEDS), &Trust::Recorded, printer).is_ok());
        fs::write(&policy, "domains: [a.example]").unwrap();
        assert!(load().trusted(Some(NEEDS), &Trust::Recorded, printer).is_err());
    }
}
