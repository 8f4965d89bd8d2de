//! The task's file: the layout of the original, surrogates instead of tokens, and a distant expiry.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sandbox_credentials::{Injection, MaskedSecret, SecretError, decoy};
use serde_json::{Value, json};

use crate::Tokens;
use crate::document::{claims, set};

/// The year 2100, in seconds since the Unix epoch.
const FAR: u64 = 4_102_444_800;
/// Placeholder for a signature that is never verified.
const NO_SIGNATURE: &str = "c3Vycm9nYXRl";

impl Tokens {
    /// The access token as a secret of this name, for `injection`; its surrogate belongs into
    /// [`task_file`](Self::task_file).
    #[must_use]
    pub fn masked(&self, name: &str, injection: Injection) -> MaskedSecret {
        // The claims of a surrogate must show that it is valid.
        let start = claims(self.access().expose()).map(|claims| self.jwt_start(&claims)).unwrap_or_default();
        MaskedSecret::in_file(name, self.access().clone(), injection, start)
    }

    /// The file for a task, with `surrogate` instead of the access token and a meaningless text
    /// instead of the refresh token. Of all other parts it contains those that the table of its
    /// kind names.
    ///
    /// # Errors
    ///
    /// If the refresh token is too short for a text of the same form.
    pub fn task_file(&self, surrogate: &str) -> Result<Vec<u8>, SecretError> {
        let table = self.kind.table();
        let mut document = json!({});
        for field in table.kept {
            if let Some(value) = self.field(field) {
                set(&mut document, field, value.clone());
            }
        }
        set(&mut document, table.access_token, surrogate.into());
        if let Some(refresh) = self.refresh_token() {
            let decoy = decoy("the refresh token", refresh)?;
            set(&mut document, table.refresh_token, decoy.into());
        }
        if !table.expires_at.is_empty() {
            set(&mut document, table.expires_at, (FAR * 1000).into());
        }
        if let Some(field) = table.id_token {
            let own = self.text(field).and_then(claims).or_else(|| claims(self.access().expose()));
            let start = self.jwt_start(&own.unwrap_or_default());
            set(&mut document, field, format!("{start}{NO_SIGNATURE}").into());
        }
        if let Some(field) = table.last_refresh {
            // The agent refreshes a login that it considers old.
            set(&mut document, field, "2099-12-31T00:00:00Z".into());
        }
        // Texts, numbers and text keys can always be serialized.
        Ok(serde_json::to_vec(&document).unwrap_or_default())
    }

    /// A JWT up to its signature, with the kept claims of `original`.
    fn jwt_start(&self, original: &Value) -> String {
        let mut kept = json!({"exp": FAR});
        for path in self.kind.table().kept_claims {
            let value = path.iter().try_fold(original, |value, key| value.get(key));
            if let Some(value) = value.filter(|value| value.is_string()) {
                set(&mut kept, path, value.clone());
            }
        }
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", encoded(&json!({"alg": "RS256", "typ": "JWT"})), encoded(&kept))
    }
}

#[cfg(test)]
mod tests {
    use sandbox_credentials::prepare_secrets;

    use super::*;
    use crate::LoginKind;

    fn file_of(kind: LoginKind, document: &Value) -> (Value, String) {
        let tokens = Tokens::read(kind, document.to_string().as_bytes()).unwrap();
        let prepared = prepare_secrets(&[tokens.masked("login", kind.injection())], &[]).unwrap();
        let surrogate = prepared.surrogate("login").unwrap().to_owned();
        let file = tokens.task_file(&surrogate).unwrap();
        (serde_json::from_slice(&file).unwrap(), surrogate)
    }

    fn jwt(claims: &Value, signature: &str) -> String {
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.{signature}", encoded(&json!({"alg": "RS256"})), encoded(claims))
    }

    #[test]
    fn claude_file_keeps_the_plan_and_no_secret() {
        let (access, refresh) = ("sk-ant-oat01-REALREALREALREAL01", "sk-ant-ort01-REALREALREALREAL02");
        let (file, surrogate) = file_of(
            LoginKind::Claude,
            &json!({
                "claudeAiOauth": {
                    "accessToken": access, "refreshToken": refresh, "expiresAt": 1000,
                    "scopes": ["user:inference"], "subscriptionType": "max", "unknown": "REAL03",
                },
                "mcpOAuth": {"x": "REAL04"},
            }),
        );
        let login = &file["claudeAiOauth"];
        assert_eq!(login["accessToken"], surrogate);
        assert_eq!(
            (&login["scopes"], &login["subscriptionType"]),
            (&json!(["user:inference"]), &json!("max"))
        );
        assert_eq!(login["expiresAt"], 4_102_444_800_000_u64);
        assert!(login["refreshToken"].as_str().is_some_and(|text| text.starts_with("sk-ant-ort01-")));
        assert!(!file.to_string().contains("REAL"), "{file}");
    }

    #[test]
    fn codex_file_has_readable_tokens_with_a_distant_expiry() {
        let auth = "https://api.openai.com/auth";
        let id = json!({"email": "a@b.example", "exp": 5, "sub": "REAL01", auth: {"chatgpt_plan_type": "plus", "organizations": ["REAL02"]}});
        let access = json!({"exp": 5, "jti": "REAL03", auth: {"chatgpt_account_id": "acc-1"}});
        let (file, surrogate) = file_of(
            LoginKind::Codex,
            &json!({
                "OPENAI_API_KEY": "sk-REAL04", "auth_mode": "chatgpt", "last_refresh": "2020-01-01T00:00:00Z",
                "tokens": {"id_token": jwt(&id, "REAL05"), "access_token": jwt(&access, "REAL06"), "refresh_token": "rt_REALREALREALREAL07", "account_id": "acc-1"},
            }),
        );
        assert_eq!((&file["auth_mode"], &file["tokens"]["account_id"]), (&json!("chatgpt"), &json!("acc-1")));
        assert_eq!(file["tokens"]["access_token"], surrogate);
        let id = claims(file["tokens"]["id_token"].as_str().unwrap()).unwrap();
        assert_eq!(id, json!({"exp": FAR, "email": "a@b.example", auth: {"chatgpt_plan_type": "plus"}}));
        assert_eq!(claims(&surrogate).unwrap(), json!({"exp": FAR, auth: {"chatgpt_account_id": "acc-1"}}));
        let shown = format!("{file}{id}");
        assert!(!shown.contains("REAL"), "{shown}");
    }
}
