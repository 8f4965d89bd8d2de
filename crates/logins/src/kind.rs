//! The kinds of logins, and all their differences.

use std::path::PathBuf;
use std::str::FromStr;

use allowlist::{Glob, HostPattern};
use sandbox_credentials::{HeaderPattern, Injection};

/// The vendor of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoginKind {
    /// A Claude subscription, as stored by `claude`.
    Claude,
    /// A `ChatGPT` subscription, as stored by `codex`.
    Codex,
}

/// A field of a JSON document: the keys that lead to it.
pub(crate) type Field = &'static [&'static str];

/// The properties of one kind.
pub(crate) struct Table {
    name: &'static str,
    /// The name of the file, on the host and for the task.
    pub(crate) file_name: &'static str,
    /// The variable that names its folder on the host, and the folder below the home folder without
    /// it.
    folder: (&'static str, &'static str),
    pub(crate) access_token: Field,
    pub(crate) refresh_token: Field,
    /// Expiry of the access token in milliseconds since the Unix epoch. Empty: the access token is
    /// a JWT with its own expiry.
    pub(crate) expires_at: Field,
    /// Other times in milliseconds since the Unix epoch, by the field of the answer that has the
    /// seconds until then.
    pub(crate) other_times: &'static [(&'static str, Field)],
    /// Time of the last refresh, RFC 3339.
    pub(crate) last_refresh: Option<Field>,
    /// A JWT about the user, which the answer to a refresh may also contain.
    pub(crate) id_token: Option<Field>,
    /// Fields that are copied unchanged to the task's file.
    pub(crate) kept: &'static [Field],
    /// Claims that are copied from the original's JWTs to the task's.
    pub(crate) kept_claims: &'static [Field],
    pub(crate) client_id: &'static str,
    /// Fields in which the document may name another client, and the granted scopes.
    pub(crate) own_client_id: Option<Field>,
    pub(crate) granted: Option<Field>,
    /// The scopes to request if the document names none.
    pub(crate) scope: &'static str,
    pub(crate) token_url: &'static str,
    hosts: &'static [&'static str],
    headers: &'static [&'static str],
    /// The command that creates a new login.
    pub(crate) command: &'static str,
    /// The folder next to the file that the vendor's program creates while it refreshes.
    pub(crate) vendor_lock: Option<&'static str>,
}

static CLAUDE: Table = Table {
    name: "claude",
    file_name: ".credentials.json",
    folder: ("CLAUDE_CONFIG_DIR", ".claude"),
    access_token: &["claudeAiOauth", "accessToken"],
    refresh_token: &["claudeAiOauth", "refreshToken"],
    expires_at: &["claudeAiOauth", "expiresAt"],
    other_times: &[("refresh_token_expires_in", &["claudeAiOauth", "refreshTokenExpiresAt"])],
    last_refresh: None,
    id_token: None,
    kept: &[
        &["claudeAiOauth", "scopes"],
        &["claudeAiOauth", "subscriptionType"],
        &["claudeAiOauth", "rateLimitTier"],
    ],
    kept_claims: &[],
    client_id: "9d1c250a-e61b-44d9-88ed-5944d1962f5e",
    own_client_id: Some(&["claudeAiOauth", "clientId"]),
    granted: Some(&["claudeAiOauth", "scopes"]),
    scope: "user:profile user:inference",
    token_url: "https://platform.claude.com/v1/oauth/token",
    hosts: &["api.anthropic.com"],
    headers: &["Authorization"],
    command: "claude",
    vendor_lock: Some(".oauth_refresh.lock"),
};

static CODEX: Table = Table {
    name: "codex",
    file_name: "auth.json",
    folder: ("CODEX_HOME", ".codex"),
    access_token: &["tokens", "access_token"],
    refresh_token: &["tokens", "refresh_token"],
    expires_at: &[],
    other_times: &[],
    last_refresh: Some(&["last_refresh"]),
    id_token: Some(&["tokens", "id_token"]),
    kept: &[&["auth_mode"], &["tokens", "account_id"]],
    kept_claims: &[
        &["email"],
        &["https://api.openai.com/profile", "email"],
        &["https://api.openai.com/auth", "chatgpt_account_id"],
        &["https://api.openai.com/auth", "chatgpt_plan_type"],
        &["https://api.openai.com/auth", "chatgpt_user_id"],
    ],
    client_id: "app_EMoamEEZ73f0CkXaXp7hrann",
    own_client_id: None,
    granted: None,
    scope: "openid profile email",
    token_url: "https://auth.openai.com/oauth/token",
    hosts: &["chatgpt.com"],
    headers: &["Authorization"],
    command: "codex login",
    vendor_lock: None,
};

impl LoginKind {
    /// All kinds.
    pub const ALL: &[Self] = &[Self::Claude, Self::Codex];

    pub(crate) fn table(self) -> &'static Table {
        match self {
            Self::Claude => &CLAUDE,
            Self::Codex => &CODEX,
        }
    }

    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.table().name
    }

    /// The name of the file with the login, in the agent's state folder.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        self.table().file_name
    }

    /// Its path for the vendor's program; `variable` reads the environment.
    #[must_use]
    pub fn usual_file(self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        let (named, usual) = self.table().folder;
        let folder = variable(named).or_else(|| Some(variable("HOME")?.join(usual)))?;
        Some(folder.join(self.table().file_name))
    }

    /// The endpoint that refreshes its tokens.
    #[must_use]
    pub fn token_url(self) -> &'static str {
        self.table().token_url
    }

    /// The injection of its access token.
    #[must_use]
    pub fn injection(self) -> Injection {
        let table = self.table();
        Injection {
            scopes: table.hosts.iter().filter_map(|host| HostPattern::new(host).ok()).collect(),
            headers: table.headers.iter().filter_map(|header| HeaderPattern::new(header).ok()).collect(),
            // It is never part of Basic credentials.
            basic_user: Some(Glob::new("")),
            ..Injection::default()
        }
    }
}

impl FromStr for LoginKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|kind| kind.name() == text);
        found
            .copied()
            .ok_or_else(|| format!("unknown login `{}`: use `claude` or `codex`", text.escape_debug()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_login_is_that_of_its_program() {
        let environment = |name: &str| match name {
            "HOME" => Some(PathBuf::from("/h")),
            "CODEX_HOME" => Some(PathBuf::from("/c")),
            _ => None,
        };
        let file = |kind: LoginKind| kind.usual_file(environment).unwrap().display().to_string();
        assert_eq!(file(LoginKind::Claude), "/h/.claude/.credentials.json");
        assert_eq!(file(LoginKind::Codex), "/c/auth.json");
        assert_eq!(LoginKind::Claude.usual_file(|_| None), None);
    }

    #[test]
    fn texts_of_tables_are_valid() {
        for kind in LoginKind::ALL {
            let (table, injection) = (kind.table(), kind.injection());
            assert_eq!(kind.name().parse(), Ok(*kind));
            assert_eq!(injection.scopes.len(), table.hosts.len());
            assert_eq!(injection.headers.len(), table.headers.len());
            assert!(table.token_url.parse::<crate::TokenUrl>().is_ok());
        }
        assert!("gemini".parse::<LoginKind>().is_err());
    }
}
