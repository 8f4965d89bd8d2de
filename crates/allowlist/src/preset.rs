//! Reviewed rules for common services, one file each in `presets/`: a line of description, then a
//! policy of `url_prefixes`.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use located_yaml::Node;
use serde::Deserialize;
use serde::Serialize;

use crate::rule::Rule;
use crate::rule::UrlRule;

/// In display order.
const FILES: [(&str, &str); 8] = [
    ("anthropic", include_str!("presets/anthropic.yaml")),
    ("openai", include_str!("presets/openai.yaml")),
    ("chatgpt", include_str!("presets/chatgpt.yaml")),
    ("google", include_str!("presets/google.yaml")),
    ("github", include_str!("presets/github.yaml")),
    ("gitlab", include_str!("presets/gitlab.yaml")),
    ("bitbucket", include_str!("presets/bitbucket.yaml")),
    ("codeberg", include_str!("presets/codeberg.yaml")),
];

static ENTRIES: LazyLock<Vec<Entry>> =
    LazyLock::new(|| FILES.into_iter().map(|(name, text)| Entry::read(name, text)).collect());

/// A named list of rules: the minimum that a service needs. It allows only some paths of its hosts,
/// and no push.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct Preset(&'static Entry);

struct Entry {
    name: &'static str,
    text: &'static str,
    rules: Vec<Rule>,
}

/// There is no preset of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown preset `{}`: {}use one of {}", .name.escape_debug(), meant(.name), names())]
pub struct UnknownPreset {
    name: String,
}

impl Preset {
    /// All presets.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        ENTRIES.iter().map(Self)
    }

    /// The preset `name`, if it exists.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|preset| preset.name() == name)
    }

    /// Its name in a policy.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Its purpose, in one line.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.0.text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    /// Its rules as a policy in YAML, with comments.
    #[must_use]
    pub fn yaml(self) -> &'static str {
        self.0.text
    }

    /// Its rules, all of `url_prefixes`.
    #[must_use]
    pub fn rules(self) -> &'static [Rule] {
        &self.0.rules
    }
}

impl Entry {
    fn read(name: &'static str, text: &'static str) -> Self {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Document {
            url_prefixes: Vec<UrlRule>,
        }
        // Presets are YAML that is also JSON, except for comment lines: the proxy, which also reads
        // them, links no YAML parser.
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let document = serde_json::from_str::<Node>(&lines.collect::<String>())
            .map_err(|error| error.to_string())
            .and_then(|node| located_yaml::from_node::<Document>(&node).map_err(|error| error.to_string()));
        match document {
            Ok(document) => {
                Self { name, text, rules: document.url_prefixes.into_iter().map(Rule::from).collect() }
            }
            Err(error) => unreachable!("the presets are part of this program and tested: {error}"),
        }
    }
}

impl PartialEq for Preset {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Preset {}

impl fmt::Debug for Preset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Preset").field(&self.name()).finish()
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Self, UnknownPreset> {
        Self::named(name).ok_or_else(|| UnknownPreset { name: name.to_owned() })
    }
}

impl TryFrom<String> for Preset {
    type Error = UnknownPreset;

    fn try_from(name: String) -> Result<Self, UnknownPreset> {
        name.parse()
    }
}

impl From<Preset> for &'static str {
    fn from(preset: Preset) -> Self {
        preset.name()
    }
}

fn names() -> String {
    FILES.map(|(name, _)| name).join(", ")
}

fn meant(name: &str) -> String {
    let near = located_yaml::nearest(name, &FILES.map(|(known, _)| known));
    near.map(|near| format!("did you mean `{near}`? Else ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Allowlist;

    #[test]
    fn preset_is_free_of_warnings_and_names_exact_hosts() {
        for preset in Preset::all() {
            let policy = Allowlist::from_yaml(preset.yaml(), preset.name()).unwrap();
            assert_eq!(policy.lint(), [], "{preset}");
            assert_eq!(policy.rules(), preset.rules());
            assert!(preset.rules().iter().all(|rule| rule.host().is_exact()), "{preset}");
            let pushes = |rule: &Rule| rule.git().is_some_and(|git| !git.push.is_empty());
            assert!(!preset.rules().iter().any(pushes), "{preset}");
            assert!(preset.yaml().starts_with("# ") && preset.description().len() > 20, "{preset}");
            assert_eq!(Preset::named(preset.name()), Some(preset));
        }
    }

    #[test]
    fn requests_allowed_by_presets() {
        for (preset, method, url, expected) in [
            ("anthropic", "POST", "https://api.anthropic.com/v1/messages?beta=true", true),
            ("anthropic", "POST", "https://api.anthropic.com/v1/messages", true),
            ("anthropic", "GET", "https://api.anthropic.com/v1/models?limit=1", true),
            ("anthropic", "POST", "https://api.anthropic.com/v1/messages/batches", false),
            ("anthropic", "POST", "https://api.anthropic.com/v1/files", false),
            ("anthropic", "POST", "https://api.anthropic.com/api/oauth/claude_cli/create_api_key", false),
            ("openai", "POST", "https://api.openai.com/v1/responses", true),
            ("openai", "POST", "https://api.openai.com/v1/files", false),
            ("openai", "DELETE", "https://api.openai.com/v1/models/x", false),
            ("chatgpt", "POST", "https://chatgpt.com/backend-api/codex/responses", true),
            ("chatgpt", "POST", "https://chatgpt.com/backend-api/conversation", false),
            (
                "google",
                "POST",
                "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
                true,
            ),
            ("google", "POST", "https://generativelanguage.googleapis.com/v1beta/files", false),
            ("github", "GET", "https://github.com/o/r/raw/main/a?raw=true", true),
            ("github", "GET", "https://github.com/search?q=secretdata/raw/x", false),
            ("gitlab", "GET", "https://gitlab.com/search?q=/-/raw/x", false),
            ("codeberg", "GET", "https://codeberg.org/x?q=/archive/x", false),
            ("bitbucket", "GET", "https://bitbucket.org/x?q=/get/x", false),
            ("github", "GET", "https://github.com/o/r.git/info/refs?service=git-upload-pack", true),
            ("github", "POST", "https://github.com/o/r/git-upload-pack", true),
            ("github", "POST", "https://github.com/gist?x=/git-upload-pack", false),
            ("github", "GET", "https://github.com/o/r.git/info/refs?service=git-receive-pack", false),
            ("github", "POST", "https://github.com/o/r.git/git-receive-pack", false),
            ("github", "GET", "https://api.github.com/repos/o/r/pulls?state=open", true),
            ("github", "POST", "https://api.github.com/gists", false),
            ("github", "POST", "https://api.github.com/graphql", false),
            ("github", "POST", "https://github.com/o/r.git/info/lfs/objects/batch", false),
            ("gitlab", "POST", "https://gitlab.com/g/s/r.git/git-upload-pack", true),
            ("gitlab", "POST", "https://gitlab.com/api/v4/projects", false),
        ] {
            let policy = Allowlist::default().with_presets(Preset::named(preset));
            let decision = policy.judge(method, url);
            assert_eq!(!matches!(decision, crate::Decision::Deny(_)), expected, "{preset} {method} {url}");
        }
    }

    #[test]
    fn google_preset_refuses_a_key_of_another_account() {
        let google = Allowlist::default().with_presets(Preset::named("google"));
        // Control: the same rules as a user's own, whose `*` matches queries.
        let own = Allowlist::from_yaml(Preset::named("google").unwrap().yaml(), "p").unwrap();
        for (method, target, expected) in [
            ("POST", "models/x:generateContent", true),
            ("GET", "models?pageSize=50", true),
            ("GET", "models/x?alt=json", true),
            ("POST", "models/x:generateContent?key=A&quotaUser=:generateContent", false),
            ("POST", "cachedContents?key=A&quotaUser=/models/a:embedContent", false),
            ("POST", "models/x:streamGenerateContent?key=A&x=:streamGenerateContent?alt=sse", false),
            ("POST", "cachedContents?x=/models/x:streamGenerateContent?alt=sse", false),
            ("GET", "models?key=A", false),
            ("GET", "models?a=b&Access_Token=A", false),
            ("GET", "models?a;%6be%79=A", false),
            ("GET", "models?oauth_token", false),
            ("GET", "models?$httpHeaders=x-goog-api-key:A", false),
        ] {
            let url = format!("https://generativelanguage.googleapis.com/v1beta/{target}");
            let allows = |policy: &Allowlist| !matches!(policy.judge(method, &url), crate::Decision::Deny(_));
            assert_eq!((allows(&google), allows(&own)), (expected, true), "{method} {url}");
        }
    }

    #[test]
    fn unknown_preset_is_an_error_with_the_nearest_name() {
        for (name, nearest) in
            [("gihub", "github"), ("antropic", "anthropic"), ("GitLab", "gitlab"), ("open-ai", "openai")]
        {
            let error = name.parse::<Preset>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("did you mean `{nearest}`? Else use one of anthropic, ")),
                "{error}"
            );
        }
        let error = "nonesuch".parse::<Preset>().unwrap_err().to_string();
        assert!(error.starts_with("unknown preset `nonesuch`: use one of anthropic, "), "{error}");
        assert!("x".repeat(10_000).parse::<Preset>().is_err());
        let error =
            Allowlist::from_yaml("domains: [a.b]\npresets:\n  - github\n  - gihub\n", "p").unwrap_err();
        assert_eq!((error.line(), error.column()), (4, 5));
        assert!(error.message().starts_with("unknown preset `gihub`: did you mean `github`? "));
    }
}
