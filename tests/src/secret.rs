//! Secrets of one test: unique values, and the surrogates that a container gets instead.

use std::io::Read as _;

use allowlist::HostPattern;
use sandbox::credentials::{
    AwsAccessKey, HeaderPattern, Injection, MaskedSecret, PreparedSecrets, SecretValue, SecretVariable,
    SigningCredential, prepare_secrets,
};

/// `prefix`, followed by `length` random letters and digits.
///
/// # Panics
///
/// If the kernel provides no random bytes.
#[must_use]
pub fn unique(prefix: &str, length: usize) -> String {
    let alphabet: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let mut bytes = vec![0; length];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut device| device.read_exact(&mut bytes))
        .expect("random bytes");
    let letters = bytes.iter().filter_map(|byte| alphabet.get(usize::from(*byte) % alphabet.len()));
    prefix.chars().chain(letters.copied()).collect()
}

/// An AWS access key.
#[derive(Debug, Clone)]
pub struct AwsKey {
    /// The access key id.
    pub id: String,
    /// The secret access key.
    pub secret: String,
    /// The session token of a temporary key.
    pub token: Option<String>,
}

impl AwsKey {
    /// A new key.
    #[must_use]
    pub fn generate(temporary: bool) -> Self {
        Self {
            id: unique(if temporary { "ASIA" } else { "AKIA" }, 16).to_uppercase(),
            // Real keys contain characters that are special in URLs, headers and base64.
            secret: format!("{}/+{}", unique("", 19), unique("", 19)),
            token: temporary.then(|| format!("{}+/{}==", unique("IQoJ", 200), unique("", 100))),
        }
    }

    /// The key in the variables that every AWS client reads.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables =
            vec![("AWS_ACCESS_KEY_ID", self.id.clone()), ("AWS_SECRET_ACCESS_KEY", self.secret.clone())];
        variables.extend(self.token.clone().map(|token| ("AWS_SESSION_TOKEN", token)));
        variables
    }
}

/// Secrets that a task uses without seeing them.
#[derive(Debug, Default)]
pub struct Secrets {
    masked: Vec<MaskedSecret>,
    signing: Vec<SigningCredential>,
}

impl Secrets {
    /// Adds a secret, whose surrogate is in `variable`.
    #[must_use]
    pub fn masked(mut self, variable: &str, value: &str, injection: Injection) -> Self {
        self.masked.push(MaskedSecret::new(variable, SecretValue::new(value), injection));
        self
    }

    /// Adds an AWS key for hosts that match `scope`.
    ///
    /// # Panics
    ///
    /// If `scope` is not a valid host pattern.
    #[must_use]
    pub fn aws(mut self, key: &AwsKey, scope: &str) -> Self {
        let part = |variable: &str, value: &str| SecretVariable::new(variable, SecretValue::new(value));
        let credential = SigningCredential::aws(AwsAccessKey {
            name: "aws".to_owned(),
            access_key_id: part("AWS_ACCESS_KEY_ID", &key.id),
            secret_access_key: part("AWS_SECRET_ACCESS_KEY", &key.secret),
            session_token: key.token.as_deref().map(|token| part("AWS_SESSION_TOKEN", token)),
            scopes: vec![HostPattern::new(scope).expect("a host pattern")],
        });
        self.signing.push(credential);
        self
    }

    /// Creates the surrogates.
    ///
    /// # Panics
    ///
    /// If a secret cannot be masked.
    #[must_use]
    pub fn prepare(&self) -> PreparedSecrets {
        prepare_secrets(&self.masked, &self.signing).expect("good secrets")
    }
}

/// An injection only for `scopes` and `headers`.
///
/// # Panics
///
/// If a pattern is invalid.
#[must_use]
pub fn injection(scopes: &[&str], headers: &[&str]) -> Injection {
    Injection {
        scopes: scopes.iter().map(|scope| HostPattern::new(scope).expect("a host pattern")).collect(),
        headers: headers.iter().map(|header| HeaderPattern::new(header).expect("a header pattern")).collect(),
        ..Injection::default()
    }
}
