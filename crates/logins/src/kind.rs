//! The kinds of logins: everything in which they differ.

use std::path::PathBuf;
use std::str::FromStr;

use allowlist::{Glob, HostPattern};
use sandbox_credentials::{HeaderPattern, Injection};

/// Whose login it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoginKind {
    /// A Claude subscription, as `claude` keeps it.
    Claude,
    /// A `ChatGPT` subscription, as `codex` keeps it.
    Codex,
}

/// A field of a JSON document: the keys that lead to it.
pub(crate) type Field = &'static [&'static str];

/// What is to be known of one kind.
pub(crate) struct Table {
    name: &'static str,
    /// The name of the file, on the host and for the task.
    pub(crate) file_name: &'static str,
    /// The variable that names its folder on the host, and the folder below the home folder without
    /// it.
    folder: (&'static str, &'static str),
    pub(crate) access_token: Field,
    pub(crate) refresh_token: Field,
    /// Milliseconds since 1970 at which the access token ends. Empty: the access token is a JWT,
    /// and says it itself.
    pub(crate) expires_at: Field,
    /// Other times in milliseconds since 1970, by the field of the answer that has the seconds
    /// until then.
    pub(crate) other_times: &'static [(&'static str, Field)],
    /// When it was refreshed last, RFC 3339.
    pub(crate) last_refresh: Option<Field>,
    /// A JWT about the user, which the answer to a refresh may bring too.
    pub(crate) id_token: Option<Field>,
    /// What the task's file has as the original has it.
    pub(crate) kept: &'static [Field],
    /// Claims of the original's JWTs that are in the task's too.
    pub(crate) kept_claims: &'static [Field],
    pub(crate) client_id: &'static str,
    /// Where the document may name another client, and the scopes that were granted.
    pub(crate) own_client_id: Option<Field>,
    pub(crate) granted: Option<Field>,
    /// The scopes that are asked for where the document names none.
    pub(crate) scope: &'static str,
    pub(crate) token_url: &'static str,
    hosts: &'static [&'static str],
    headers: &'static [&'static str],
    /// The command that makes a new login.
    pub(crate) command: &'static str,
    /// The folder beside the file that the vendor's program makes while it refreshes.
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
    /// All of them.
    pub const ALL: &[Self] = &[Self::Claude, Self::Codex];

    pub(crate) fn table(self) -> &'static Table {
        match self {
            Self::Claude => &CLAUDE,
            Self::Codex => &CODEX,
        }
    }

    /// How it is written in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.table().name
    }

    /// The name of the file with the login, in the folder where the agent keeps its state.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        self.table().file_name
    }

    /// Where the vendor's program keeps it, by what `variable` says of the environment.
    #[must_use]
    pub fn usual_file(self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        let (named, usual) = self.table().folder;
        let folder = variable(named).or_else(|| Some(variable("HOME")?.join(usual)))?;
        Some(folder.join(self.table().file_name))
    }

    /// Where its tokens are refreshed.
    #[must_use]
    pub fn token_url(self) -> &'static str {
        self.table().token_url
    }

    /// Where its access token goes.
    #[must_use]
    pub fn injection(self) -> Injection {
        let table = self.table();
        Injection {
            scopes: table.hosts.iter().filter_map(|host| HostPattern::new(host).ok()).collect(),
            headers: table.headers.iter().filter_map(|header| HeaderPattern::new(header).ok()).collect(),
            // It never stands in Basic credentials.
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
    fn a_login_is_where_its_program_keeps_it() {
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
    fn every_text_of_a_table_is_good() {
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
