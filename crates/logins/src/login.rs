//! Reads a login, and refreshes it when it expires.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;
use sandbox_credentials::SecretValue;
use sandbox_files::Replacement;
use sandbox_files::host_path::Resolver;
use serde_json::json;
use tokio::sync::Mutex;

use crate::endpoint::{Endpoint, TokenRequest};
use crate::record::{Attempt, Record};
use crate::vendor_lock::VendorLock;
use crate::{LoginError, LoginKind, Tokens, Unanswered};

/// An access token with a shorter remaining lifetime is refreshed. The vendors' programs use the
/// same margin.
pub const MARGIN: Duration = Duration::from_mins(5);
/// Maximum size of a login's file in bytes.
const LONGEST: u64 = 256 << 10;

/// Held from sending a refresh token until the result is stored: see [`Login::settled`].
static IN_FLIGHT: Mutex<()> = Mutex::const_new(());

/// A login in a file of the host.
#[derive(Debug, Clone)]
pub struct Login {
    kind: LoginKind,
    file: PathBuf,
    resolver: Resolver,
    state: PathBuf,
}

impl Login {
    /// The login in `file`. `resolver` knows the folders that tasks can write; `state` is a folder
    /// for locks and records that no task can write, shared by all users of this login.
    #[must_use]
    pub fn new(kind: LoginKind, file: PathBuf, state: PathBuf, resolver: Resolver) -> Self {
        Self { kind, file, resolver, state }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> LoginKind {
        self.kind
    }

    /// The current content of the file.
    ///
    /// # Errors
    ///
    /// If there is no usable login of this kind.
    pub fn read(&self) -> Result<Tokens, LoginError> {
        Ok(self.open()?.1)
    }

    /// Tokens that are valid for at least [`MARGIN`]: those in the file, or new ones, which are in
    /// the file when this returns. An access token that was `refused` counts as expired.
    ///
    /// Once a refresh token is sent, the result is stored even if the caller stops waiting; a
    /// program must wait for [`settled`](Self::settled) before it exits.
    ///
    /// # Errors
    ///
    /// See [`LoginError`]. An error that [may pass](LoginError::may_pass) leaves the file
    /// unchanged.
    pub async fn fresh(
        &self,
        endpoint: &impl Endpoint,
        now: SystemTime,
        refused: Option<&SecretValue>,
    ) -> Result<Tokens, LoginError> {
        let (_, tokens) = self.open()?;
        if is_good(&tokens, now, refused) {
            return Ok(tokens);
        }
        let url = endpoint.name();
        let (login, endpoint, refused) = (self.clone(), endpoint.clone(), refused.cloned());
        let work = tokio::spawn(async move { login.refresh(&endpoint, now, refused.as_ref()).await });
        match work.await {
            Ok(done) => done,
            Err(failed) => Err(LoginError::Unavailable { url, problem: failed.to_string() }),
        }
    }

    /// Waits until the results of all refreshes are stored. While the returned guard is held, no
    /// refresh begins.
    pub async fn settled() -> impl Drop {
        IN_FLIGHT.lock().await
    }

    /// The file's real path and content.
    fn open(&self) -> Result<(PathBuf, Tokens), LoginError> {
        let command = self.kind.table().command;
        let unread = |source| LoginError::Read { command, source };
        let found = self.resolver.find(&self.file).map_err(unread)?;
        if found.is_untrusted() {
            return Err(LoginError::Untrusted { file: self.file.clone() });
        }
        let bytes = zeroize::Zeroizing::new(found.read(LONGEST).map_err(unread)?);
        let malformed = |what| LoginError::Malformed { file: self.file.clone(), what, command };
        let tokens = Tokens::read(self.kind, &bytes).map_err(malformed)?;
        Ok((found.path().to_owned(), tokens))
    }

    /// Refreshes, unless another process did while this one waited for its turn.
    async fn refresh(
        &self,
        endpoint: &impl Endpoint,
        now: SystemTime,
        refused: Option<&SecretValue>,
    ) -> Result<Tokens, LoginError> {
        let (file, _) = self.open()?;
        let record = Record::new(self.state.clone(), &file);
        let _turn = record.lock().await.map_err(|source| store_error(&record.lock_path(), source))?;
        // First, so that the vendor's lock is never held longer than its own program considers it
        // valid.
        let _in_flight = IN_FLIGHT.lock().await;
        let _vendors_turn = self.vendors_turn(&file).await?;
        let (file, tokens) = self.open()?;
        if is_good(&tokens, now, refused) {
            return Ok(tokens);
        }
        let Some(token) = tokens.refresh_token() else {
            return if tokens.good_for(now).is_none_or(|left| !left.is_zero()) && refused.is_none() {
                Ok(tokens)
            } else {
                let command = self.kind.table().command;
                Err(LoginError::Expired { file, command })
            };
        };
        let before = record.of(token).map_err(|source| store_error(&record.path(), source))?;
        if let Attempt::Refused { code, cut_off_before } = before {
            return Err(self.refusal(code, cut_off_before));
        }
        check_writable(&file, &tokens)?;
        let note = |attempt: &Attempt| {
            record.note(token, attempt).map_err(|source| store_error(&record.path(), source))
        };
        note(&Attempt::CutOff)?;
        let answer = endpoint.ask(self.request(&tokens, token)).await;
        // No awaiting from here on: the only copy of the new tokens is in this process.
        match answer {
            Ok(answer) => {
                let malformed = |what: &str| LoginError::Unavailable {
                    url: endpoint.name(),
                    problem: format!("the answer cannot be used: {what}"),
                };
                let refreshed = tokens.refreshed(&answer, now).map_err(malformed)?;
                let written = Replacement::private().durable().write(&file, &refreshed.to_bytes());
                written.map_err(|source| store_error(&file, source))?;
                note(&Attempt::None)?;
                Ok(refreshed)
            }
            Err(Unanswered::Refused(code)) => {
                let cut_off_before = before == Attempt::CutOff;
                note(&Attempt::Refused { code: code.clone(), cut_off_before })?;
                Err(self.refusal(code, cut_off_before))
            }
            Err(Unanswered::Unavailable(problem)) => {
                Err(LoginError::Unavailable { url: endpoint.name(), problem })
            }
        }
    }

    async fn vendors_turn(&self, file: &Path) -> Result<Option<VendorLock>, LoginError> {
        let (Some(name), Some(folder)) = (self.kind.table().vendor_lock, file.parent()) else {
            return Ok(None);
        };
        let path = folder.join(name);
        match VendorLock::take(path.clone()).await {
            Ok(Some(lock)) => Ok(Some(lock)),
            Ok(None) => Err(LoginError::Locked { file: file.to_owned(), lock: path }),
            Err(source) => Err(store_error(&path, source)),
        }
    }

    fn request(&self, tokens: &Tokens, token: &SecretValue) -> TokenRequest {
        let table = self.kind.table();
        let own_client = table.own_client_id.and_then(|field| tokens.text(field));
        let granted = table.granted.and_then(|field| tokens.field(field)?.as_array());
        let granted: Vec<&str> = granted
            .into_iter()
            .flatten()
            .filter_map(|scope| scope.as_str())
            .filter(|scope| *scope != MAKES_KEYS)
            .collect();
        let scope = if granted.is_empty() { table.scope.to_owned() } else { granted.join(" ") };
        let mut body = json!({
            "grant_type": "refresh_token",
            "refresh_token": token.expose(),
            "client_id": own_client.unwrap_or(table.client_id),
            "scope": scope,
        });
        let request = TokenRequest::new(body.to_string().into_bytes());
        crate::document::wipe(&mut body);
        request
    }

    fn refusal(&self, code: String, cut_off_before: bool) -> LoginError {
        let command = self.kind.table().command;
        LoginError::Refused { file: self.file.clone(), code, cut_off_before, command }
    }
}

/// The right to create API keys, which the task's use of the login would also have.
const MAKES_KEYS: &str = "org:create_api_key";

/// Whether there is nothing to refresh.
fn is_good(tokens: &Tokens, now: SystemTime, refused: Option<&SecretValue>) -> bool {
    refused != Some(tokens.access()) && tokens.good_for(now).is_none_or(|left| left > MARGIN)
}

/// Checks that the result of a refresh can be stored: afterwards it is too late.
fn check_writable(file: &Path, tokens: &Tokens) -> Result<(), LoginError> {
    let failed = |source| store_error(file, source);
    let owner = fs::metadata(file).map_err(failed)?.uid();
    if owner != geteuid().as_raw() {
        return Err(failed(io::Error::other("it belongs to another user")));
    }
    let mut probe = file.as_os_str().to_owned();
    probe.push(".probe");
    let probe = PathBuf::from(probe);
    let room = vec![b' '; tokens.to_bytes().len() + 4096];
    Replacement::private().durable().write(&probe, &room).map_err(failed)?;
    fs::remove_file(&probe).map_err(failed)
}

fn store_error(file: &Path, source: io::Error) -> LoginError {
    LoginError::Store { file: file.to_owned(), source }
}

#[cfg(test)]
mod tests;
