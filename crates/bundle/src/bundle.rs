//! A bundle, and its manifest.

use std::io::{self, Read};
use std::iter;
use std::path::Path;

use allowlist::Allowlist;
use serde::{Deserialize, Serialize};

use crate::archive::Reader;
use crate::canonical;
use crate::digest::Digest;
use crate::error::InvalidBundle;
use crate::listing::Listing;
use crate::settings::Settings;
use crate::unpack::{TIME, Unpacked};

/// The only version of the format.
const VERSION: u32 = 1;
/// The name of the manifest, which is the first entry of an archive, and its maximum size: policies
/// take far more memory than text.
pub(crate) const MANIFEST: &str = "manifest.json";
const MANIFEST_BYTES: u64 = 4 << 20;
/// The name of the listing, which is the second entry. That of a million files has about 200 MiB.
pub(crate) const TREE: &str = "tree.json";
const TREE_BYTES: u64 = 256 << 20;

/// What a bundle is identified by: its settings and its tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    version: u32,
    /// The command and its settings.
    pub settings: Settings,
    /// The digest of the listing of the tree.
    pub tree: Digest,
    /// The digest of the rules of the presets that the policy names: another version of the program
    /// may have others.
    presets: Digest,
}

/// A bundle of which every byte was verified.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bundle {
    /// The digest of its manifest, which identifies it.
    pub digest: Digest,
    /// Its manifest.
    pub manifest: Manifest,
    /// The files of the work tree.
    pub tree: Listing,
}

impl Bundle {
    /// Reads a bundle to its end.
    ///
    /// # Errors
    ///
    /// If any byte differs from those that were written, if the settings are not those of any run, or
    /// if reading fails.
    pub fn read(input: impl Read) -> Result<Self, InvalidBundle> {
        let mut archive = Reader(input);
        let bundle = Self::begin(&mut archive)?;
        archive.blobs(&bundle.tree, |_| Ok(io::sink()))?;
        Ok(bundle)
    }

    /// The same, and creates the folder `root` with the tree. Its parent must be a folder that nobody
    /// else writes to. All files have the same time, 1980-01-02. After an error, a part of it may exist.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), if `root` exists or cannot be written, and if the files would take more
    /// than half of the free space: a small bundle can have one content under many names.
    pub fn unpack(input: impl Read, root: &Path) -> Result<Self, InvalidBundle> {
        let mut archive = Reader(input);
        let bundle = Self::begin(&mut archive)?;
        let failed = || InvalidBundle::unpacking(TREE);
        let unpacked = Unpacked::begin(&bundle.tree, root).map_err(failed())?;
        archive.blobs(&bundle.tree, |digest| unpacked.blob(digest))?;
        unpacked.finish(&bundle.tree, Some(TIME)).map_err(failed())?;
        Ok(bundle)
    }

    /// Everything before the blobs.
    fn begin(archive: &mut Reader<impl Read>) -> Result<Self, InvalidBundle> {
        let bytes = archive.whole(MANIFEST, MANIFEST_BYTES)?;
        let manifest = Manifest::read(&bytes)?;
        let text = archive.whole(TREE, TREE_BYTES)?;
        if Digest::of(&text) != manifest.tree {
            return Err(InvalidBundle::new(TREE, "was changed: it has another digest"));
        }
        let tree: Listing =
            canonical::from_bytes(&text).map_err(|problem| InvalidBundle::new(TREE, problem))?;
        Ok(Self { digest: Digest::of(&bytes), manifest, tree })
    }
}

impl Manifest {
    /// The bytes of a manifest and of its listing, unless a reader would refuse them.
    pub(crate) fn write(settings: &Settings, tree: &Listing) -> Result<(Vec<u8>, Vec<u8>), InvalidBundle> {
        #[derive(Serialize)]
        struct Written<'a> {
            version: u32,
            settings: &'a Settings,
            tree: Digest,
            presets: Digest,
        }
        let failed = |at| move |error: serde_json::Error| InvalidBundle::new(at, error.to_string());
        let listing = canonical::to_bytes(tree).map_err(failed(TREE))?;
        let (tree, presets) = (Digest::of(&listing), presets(&settings.policy));
        let written = Written { version: VERSION, settings, tree, presets };
        let manifest = canonical::to_bytes(&written).map_err(failed(MANIFEST))?;
        Self::read(&manifest)?;
        for (at, bytes, most) in [(MANIFEST, &manifest, MANIFEST_BYTES), (TREE, &listing, TREE_BYTES)] {
            if bytes.len() as u64 > most {
                return Err(InvalidBundle::new(at, format!("would have more than {most} bytes")));
            }
        }
        Ok((manifest, listing))
    }

    fn read(bytes: &[u8]) -> Result<Self, InvalidBundle> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let invalid = |problem: String| InvalidBundle::new(MANIFEST, problem);
        if let Ok(Versioned { version }) = serde_json::from_slice(bytes)
            && version != VERSION
        {
            return Err(invalid(format!(
                "has version {version} of the format, and this program reads version {VERSION}"
            )));
        }
        let manifest: Self = canonical::from_bytes(bytes).map_err(invalid)?;
        if let Some(problem) = manifest.settings.problem() {
            return Err(invalid(problem.to_owned()));
        }
        if manifest.presets != presets(&manifest.settings.policy) {
            let problem = "names presets that have other rules in this version of the program";
            return Err(invalid(problem.to_owned()));
        }
        Ok(manifest)
    }
}

/// The digest of the rules of all presets in `policy`.
fn presets(policy: &Allowlist) -> Digest {
    let outer = policy.outer().iter().map(|outer| &outer.policy);
    let presets = iter::once(policy).chain(outer).flat_map(Allowlist::presets);
    let lines = presets.flat_map(|preset| preset.rules()).map(|rule| rule.to_yaml() + "\n");
    Digest::of(lines.collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use allowlist::{HostPattern, OuterPolicy, Rule};
    use proptest::prelude::*;
    use sandbox_credentials::{HeaderPattern, Injection};

    use super::*;
    use crate::archive::{self, END, blob};
    use crate::listing::Entry;
    use crate::path::TreePath;
    use crate::settings::{AgentTask, Limits, SessionToken, SigningKey, Stall, Task, Variable, VariableName};

    fn name(text: &str) -> VariableName {
        text.to_owned().try_into().unwrap()
    }

    /// Settings that use every part.
    fn settings() -> Settings {
        let rule = |text: &str| text.parse::<Rule>().unwrap();
        let outer =
            OuterPolicy::new("/etc/sandbox/policy.yaml", allowlist::Allowlist::new([rule("*.example")]));
        let policy = allowlist::Allowlist::new([rule("GET b.example/x/*"), rule("a.example")])
            .with_presets(["anthropic".parse().unwrap()])
            .denying(&rule("a.example/secret"))
            .within_all([outer]);
        let host = || HostPattern::new("a.example").unwrap();
        let injection = Injection {
            scopes: vec![host()],
            headers: vec![HeaderPattern::new("x").unwrap()],
            ..Injection::default()
        };
        let key = SigningKey {
            access_key_id: name("ID"),
            secret_access_key: name("KEY"),
            session_token: SessionToken::IfSet(name("SESSION")),
            scopes: vec![host()],
            allow_foreign_credentials: false,
        };
        Settings {
            task: Task::Command(vec!["make".to_owned(), "é\n".to_owned()]),
            working_dir: "/workspace".to_owned(),
            image: "localhost/x:1".to_owned(),
            variables: [
                (name("A"), Variable::Value("a".to_owned())),
                (name("B"), Variable::Required(name("OTHER"))),
                (name("C"), Variable::IfSet(None)),
                (name("TOKEN"), Variable::Masked(injection)),
            ]
            .into(),
            signing: [("deploy".to_owned(), key)].into(),
            limits: Limits { timeout: Some(60), nano_cpus: Some(1_500_000_000), ..Limits::default() },
            policy,
        }
    }

    fn tree(contents: &[&str]) -> Listing {
        let entries = contents.iter().enumerate().map(|(at, content)| {
            let (sha256, size) = (Digest::of(content.as_bytes()), content.len() as u64);
            let path = TreePath::try_from(format!("f{at}")).unwrap();
            (path, Entry::File { sha256, size, executable: at > 0 })
        });
        Listing::new(entries.collect()).unwrap()
    }

    /// A bundle with this manifest and the files of [`tree`].
    fn packed(manifest: &[u8], contents: &[&str]) -> Vec<u8> {
        let listing = canonical::to_bytes(&tree(contents)).unwrap();
        let blobs: BTreeMap<_, _> =
            contents.iter().map(|text| (Digest::of(text.as_bytes()), text.as_bytes())).collect();
        let blobs: Vec<_> = blobs.into_iter().map(|(digest, bytes)| (blob(&digest), bytes)).collect();
        let first = [(MANIFEST.to_owned(), manifest), (TREE.to_owned(), &listing[..])];
        let mut bytes = Vec::new();
        for (name, content) in first.into_iter().chain(blobs) {
            archive::write(&mut bytes, &name, content.len() as u64, content).unwrap();
        }
        bytes.extend(END);
        bytes
    }

    fn manifest(contents: &[&str]) -> String {
        written(&settings(), contents)
    }

    fn written(settings: &Settings, contents: &[&str]) -> String {
        let (manifest, _) = Manifest::write(settings, &tree(contents)).unwrap();
        String::from_utf8(manifest).unwrap()
    }

    const CONTENTS: [&str; 3] = ["one", "two", "one"];

    #[test]
    fn bundle_is_read_as_it_was_written() {
        let text = manifest(&CONTENTS);
        let bundle = Bundle::read(&packed(text.as_bytes(), &CONTENTS)[..]).unwrap();
        assert_eq!(bundle.digest, Digest::of(text.as_bytes()));
        assert_eq!((&bundle.manifest.settings, &bundle.tree), (&settings(), &tree(&CONTENTS)));
        assert!(text.starts_with(r#"{"version":1,"settings":{"task":{"command":["make","é\n"]},"#), "{text}");
    }

    #[test]
    fn manifest_without_a_meaning_is_refused() {
        let text = manifest(&CONTENTS);
        let longer = format!(r#""command":["{}","#, "x".repeat(5 << 20));
        for (from, to, reason) in [
            (r#""version":1"#, r#""version":2"#, "has version 2 of the format"),
            (r#""version":1"#, r#""version":2,"later":[]"#, "has version 2 of the format"),
            (r#""limits":{"#, r#""limits":{"more":1,"#, "is not the expected JSON"),
            (r#"{"required":"OTHER"}"#, r#"{"command":"OTHER"}"#, "is not the expected JSON"),
            (r#""allow_echo":false"#, r#""allow_echo": false"#, "another form"),
            (r#""B":"#, r#""B=C":"#, "is not the expected JSON"),
            (r#"["make","#, r#"["","#, "has no command"),
            (r#""make","é\n""#, "", "has no command"),
            (r#""make""#, r#""make\u0000""#, "zero byte"),
            ("localhost/x:1", "", "names no image"),
            ("/workspace", "/workspace/../etc", "a working directory"),
            ("/workspace", "workspace", "a working directory"),
            (r#""timeout":60"#, r#""timeout":0"#, "a limit of zero"),
            (r#""scopes":["a.example"]"#, r#""scopes":[]"#, "without hosts"),
            (r#""command":["#, &longer, "has more than"),
        ] {
            assert!(text.contains(from), "{from}: {text}");
            let changed = text.replacen(from, to, 1);
            let error = Bundle::read(&packed(changed.as_bytes(), &CONTENTS)[..]).unwrap_err().to_string();
            assert!(error.contains(reason), "{to}: {error}");
        }
        assert!(Bundle::read(&packed(text.as_bytes(), &CONTENTS)[..]).is_ok(), "the control");
    }

    #[test]
    fn agent_is_one_that_is_known_and_has_a_prompt() {
        let agent = AgentTask {
            agent: "codex".parse().unwrap(),
            prompt: "do".to_owned(),
            model: Some("small".to_owned()),
            max_turns: 3.try_into().ok(),
            max_budget_microdollars: 2_500_000.try_into().ok(),
            stall: Some(Stall { after: 900.try_into().unwrap(), stop: true }),
            briefing: true,
            arguments: vec!["-v".to_owned()],
        };
        let settings = Settings { task: Task::Agent(agent), ..settings() };
        let text = written(&settings, &CONTENTS);
        let read = |text: &str| Bundle::read(&packed(text.as_bytes(), &CONTENTS)[..]);
        assert_eq!(read(&text).unwrap().manifest.settings, settings, "the control");
        for (from, to, reason) in [
            (r#""codex""#, r#""vim""#, "is not the expected JSON"),
            (r#""prompt":"do""#, r#""prompt":" \n""#, "has no prompt"),
            (r#""prompt":"do""#, r#""prompt":"\u0000""#, "zero byte"),
            (r#""small""#, r#""\u0000""#, "zero byte"),
            (r#""small""#, &format!("{:?}", "x".repeat(1_001)), "too long a name"),
            (r#"["-v"]"#, r#"["\u0000"]"#, "zero byte"),
            (r#""max_turns":3"#, r#""max_turns":0"#, "is not the expected JSON"),
            (
                r#""max_budget_microdollars":2500000"#,
                r#""max_budget_microdollars":2.5"#,
                "is not the expected JSON",
            ),
        ] {
            assert!(text.contains(from), "{from}: {text}");
            let error = read(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(reason), "{to}: {error}");
        }
    }

    #[test]
    fn presets_with_other_rules_are_refused() {
        let text = manifest(&CONTENTS);
        let at = format!(r#""presets":"{}""#, presets(&settings().policy));
        let other = format!(r#""presets":"{}""#, Digest::of(b"other rules"));
        assert!(text.contains(&at), "{text}");
        let error = Bundle::read(&packed(text.replace(&at, &other).as_bytes(), &CONTENTS)[..]).unwrap_err();
        assert!(error.to_string().contains("presets that have other rules"), "{error}");
        assert_ne!(presets(&settings().policy), presets(&Allowlist::default()), "the control");
    }

    #[test]
    fn many_outer_policies_are_refused() {
        let text = manifest(&CONTENTS);
        let read = |count: usize| {
            let outer = |at| format!(r#"{{"document":"{at}","policy":{{"domains":[],"url_prefixes":[]}}}}"#);
            let outer: Vec<_> = (0..count).map(outer).collect();
            let (start, _) = text.split_once(r#""within":["#).unwrap();
            let (_, end) = text.rsplit_once("]}},").unwrap();
            let changed = format!(r#"{start}"within":[{}]}}}},{end}"#, outer.join(","));
            Bundle::read(&packed(changed.as_bytes(), &CONTENTS)[..])
                .map(drop)
                .map_err(|error| error.to_string())
        };
        assert_eq!(read(20), Ok(()), "the control");
        assert!(read(30_000).unwrap_err().contains("is not the expected JSON"));
    }

    #[test]
    fn other_tree_than_that_of_the_manifest_is_refused() {
        let text = manifest(&CONTENTS);
        for other in [&["one", "two"][..], &["one", "two", "two"], &["one", "two", "one", "three"]] {
            let error = Bundle::read(&packed(text.as_bytes(), other)[..]).unwrap_err().to_string();
            assert_eq!(error, "`tree.json` was changed: it has another digest");
        }
    }

    #[test]
    fn bundle_is_unpacked_as_it_was_packed() {
        let bytes = packed(manifest(&CONTENTS).as_bytes(), &CONTENTS);
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        assert_eq!(Bundle::unpack(&bytes[..], &root).unwrap(), Bundle::read(&bytes[..]).unwrap());
        for (name, content, mode) in [("f0", "one", 0o644), ("f1", "two", 0o755), ("f2", "one", 0o755)] {
            let path = root.join(name);
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode, "{name}");
        }
        assert!(Bundle::unpack(&bytes[..], &root).is_err(), "the folder exists");
        let mut changed = bytes.clone();
        let at = changed.windows(3).position(|window| window == b"two").unwrap();
        changed[at] = b'T';
        let error = Bundle::unpack(&changed[..], &folder.path().join("other")).unwrap_err().to_string();
        assert!(error.contains("was changed: it has another digest"), "{error}");
    }

    proptest! {
        #[test]
        fn changed_byte_is_refused_or_gives_another_digest(at in any::<prop::sample::Index>(), flip in 1..=255_u8, cut in any::<prop::sample::Index>(), more in 1..3_usize) {
            let bytes = packed(manifest(&CONTENTS).as_bytes(), &CONTENTS);
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= flip;
            let digest = Bundle::read(&bytes[..]).unwrap().digest;
            prop_assert!(Bundle::read(&changed[..]).map_or(true, |other| other.digest != digest));
            prop_assert!(Bundle::read(&bytes[..cut.index(bytes.len())]).is_err());
            let longer = bytes.iter().copied().chain(io::Read::bytes(io::repeat(0).take(more as u64)).flatten());
            prop_assert!(Bundle::read(&longer.collect::<Vec<_>>()[..]).is_err());
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            prop_assert!(Bundle::read(&bytes[..]).is_err());
            let _ = Bundle::read(&packed(&bytes, &[])[..]);
        }
    }
}
