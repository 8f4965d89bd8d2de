//! Receipts: signed statements about results.

use std::fmt;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::Digest;
use crate::error::InvalidBundle;
use crate::record::{AgentSummary, Ended, RunResult};

/// The name of the file.
const NAME: &str = "receipt.json";
/// The types of the envelope, the statement and its predicate: DSSE and in-toto.
const PAYLOAD: &str = "application/vnd.in-toto+json";
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "urn:sandbox:receipt:v1";
/// The file that a statement is about.
const SUBJECT: &str = "result.json";
/// The bytes of DER before an Ed25519 key of RFC 8410.
const DER: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// What a host states about a run. The other files of its result are named by `result.json`, whose
/// digest is signed with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Receipt {
    /// The digest of the bundle.
    pub bundle: Digest,
    /// The digest of the listing of its files.
    pub tree: Digest,
    /// The digest of the policy at the start, narrowed by the host's own, as JSON between programs.
    pub policy: Digest,
    /// Whether somebody on the host changed the policy during the run.
    pub policy_changed: bool,
    /// The tag of the image, which is derived from its id.
    pub image: String,
    /// The digest of `changes.tar`.
    pub changes: Digest,
    /// What ended the run.
    pub ended: Ended,
    /// Its exit code.
    pub exit_code: u8,
    /// The outcome of an agent and what it used; `None` for a command.
    pub agent: Option<AgentSummary>,
    /// Milliseconds that it took.
    pub duration_ms: u64,
    /// The first 1,000 hosts that it requested: those with a permitted request, then the others, each by
    /// name.
    pub hosts: Vec<RequestedHost>,
    /// The number of further ones.
    pub hosts_more: u64,
}

/// A host that a run requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestedHost {
    /// Its name, of at most 512 bytes; empty if the request had none.
    pub host: String,
    /// Requests that the policy permitted, also those that failed.
    pub permitted: u64,
    /// Requests that it refused. The log, and so this number, has a bound.
    pub refused: u64,
}

/// The key that signs the receipts of a host.
pub struct ReceiptKey(SigningKey);

/// The public part of a [`ReceiptKey`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptPublicKey(VerifyingKey);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: [Signed; 1],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    keyid: String,
    sig: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: [Subject; 1],
    predicate_type: String,
    predicate: Receipt,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    name: String,
    digest: SubjectDigest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectDigest {
    sha256: Digest,
}

impl Receipt {
    /// The bytes of `receipt.json` for the result with the record `result`.
    ///
    /// # Errors
    ///
    /// If they cannot be written as JSON.
    pub fn sign(self, result: &RunResult, key: &ReceiptKey) -> Result<Vec<u8>, InvalidBundle> {
        let sha256 = Digest::of(&result.to_bytes()?);
        let subject = [Subject { name: SUBJECT.to_owned(), digest: SubjectDigest { sha256 } }];
        let [kind, predicate_type] = [STATEMENT, PREDICATE].map(str::to_owned);
        let statement = bytes(&Statement { kind, subject, predicate_type, predicate: self })?;
        let sig = BASE64_STANDARD.encode(key.0.sign(&authenticated(&statement)).to_bytes());
        let signatures = [Signed { keyid: key.public().id(), sig }];
        let payload = BASE64_STANDARD.encode(statement);
        bytes(&Envelope { payload, payload_type: PAYLOAD.to_owned(), signatures })
    }

    /// Reads `receipt.json`, which one of `keys` must have signed for `result`.
    ///
    /// # Errors
    ///
    /// If any byte differs from those that were written, another key signed it, or it contradicts the
    /// record.
    pub fn verify(text: &[u8], result: &RunResult, keys: &[ReceiptPublicKey]) -> Result<Self, InvalidBundle> {
        let invalid = |problem: String| InvalidBundle::new(NAME, problem);
        let refused = |problem: &str| invalid(problem.to_owned());
        let envelope: Envelope = canonical::from_bytes(text).map_err(invalid)?;
        let [Signed { keyid, sig }] = envelope.signatures;
        let decoded = |text: &str| BASE64_STANDARD.decode(text).map_err(|_| refused("has invalid base64"));
        let statement = decoded(&envelope.payload)?;
        let signature =
            Signature::from_slice(&decoded(&sig)?).map_err(|_| refused("has no Ed25519 signature"))?;
        if envelope.payload_type != PAYLOAD {
            return Err(refused("has another type"));
        }
        let key = keys.iter().find(|key| key.id() == keyid);
        let key = key.ok_or_else(|| invalid(format!("is signed by another key, {keyid}")))?;
        key.0
            .verify_strict(&authenticated(&statement), &signature)
            .map_err(|_| refused("was changed: its signature is not valid"))?;
        let Statement { kind, subject, predicate_type, predicate } =
            canonical::from_bytes(&statement).map_err(invalid)?;
        if kind != STATEMENT || predicate_type != PREDICATE {
            return Err(refused("has a statement of another type"));
        }
        let [Subject { name, digest }] = subject;
        if name != SUBJECT || digest.sha256 != Digest::of(&result.to_bytes()?) || !predicate.is_of(result) {
            return Err(refused("is about another result"));
        }
        Ok(predicate)
    }

    fn is_of(&self, RunResult { outcome, measured, .. }: &RunResult) -> bool {
        (self.bundle, self.changes, self.exit_code)
            == (outcome.bundle, outcome.changes.sha256, outcome.exit_code)
            && (self.ended, self.duration_ms) == (outcome.ended, measured.duration_ms)
            && self.image == measured.image
            && self.agent == outcome.agent.as_ref().map(|agent| agent.summary)
    }
}

impl ReceiptKey {
    /// The key of 32 random bytes.
    #[must_use]
    pub fn new(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Its public part.
    #[must_use]
    pub fn public(&self) -> ReceiptPublicKey {
        ReceiptPublicKey(self.0.verifying_key())
    }
}

impl fmt::Debug for ReceiptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceiptKey({})", self.public().id())
    }
}

impl ReceiptPublicKey {
    /// Its fingerprint as an SSH key, by which other programs find it: `SHA256:` and base64.
    #[must_use]
    pub fn id(&self) -> String {
        let parts = [&b"\0\0\0\x0bssh-ed25519\0\0\0\x20"[..], self.0.as_bytes()].concat();
        format!("SHA256:{}", BASE64_STANDARD_NO_PAD.encode(Digest::of(&parts).as_bytes()))
    }

    /// The key as PEM, as RFC 8410 defines it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let der = BASE64_STANDARD.encode([&DER[..], self.0.as_bytes()].concat());
        format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n")
    }

    /// Reads PEM.
    ///
    /// # Errors
    ///
    /// If it is not that of one Ed25519 key.
    pub fn from_pem(text: &str) -> Result<Self, InvalidBundle> {
        let inner = text.trim().strip_prefix("-----BEGIN PUBLIC KEY-----");
        let inner = inner.and_then(|text| text.strip_suffix("-----END PUBLIC KEY-----"));
        let der = inner.and_then(|text| BASE64_STANDARD.decode(text.trim()).ok());
        let key = der.as_deref().and_then(|der| der.strip_prefix(&DER));
        let key = key.and_then(|key| VerifyingKey::from_bytes(key.try_into().ok()?).ok());
        key.map(Self).ok_or_else(|| InvalidBundle::new("the key", "is not the PEM of a public Ed25519 key"))
    }
}

/// The bytes that are signed: DSSE's "pre-authentication encoding".
fn authenticated(statement: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD} {} ", PAYLOAD.len(), statement.len());
    [head.as_bytes(), statement].concat()
}

fn bytes(value: &impl Serialize) -> Result<Vec<u8>, InvalidBundle> {
    canonical::to_bytes(value).map_err(|error| InvalidBundle::new(NAME, error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{AgentEnd, Content, Measured, Outcome};

    fn key() -> ReceiptKey {
        ReceiptKey::new(&[7; 32])
    }

    fn agent() -> AgentSummary {
        AgentSummary { outcome: sandbox_agents::Outcome::RateLimited, turns: 3, microdollars: 120_000 }
    }

    fn result(exit_code: u8) -> RunResult {
        let content = |text: &str| Content { sha256: Digest::of(text.as_bytes()), size: text.len() as u64 };
        let outcome = Outcome {
            bundle: Digest::of(b"bundle"),
            ended: Ended::Exited,
            exit_code,
            agent: Some(AgentEnd { summary: agent(), report: content("{}"), session: content("") }),
            changes: content("changes"),
            omitted: Vec::new(),
            omitted_more: 0,
            stdout: content("out"),
            stderr: content(""),
            cut: 0,
        };
        let [image, program] = ["x:1", "0.1.0"].map(str::to_owned);
        let measured = Measured { network: content(""), duration_ms: 5, oom_killed: false, image, program };
        RunResult::new(outcome, measured).unwrap()
    }

    fn receipt() -> Receipt {
        Receipt {
            bundle: Digest::of(b"bundle"),
            tree: Digest::of(b"tree"),
            policy: Digest::of(b"policy"),
            policy_changed: false,
            image: "x:1".to_owned(),
            changes: Digest::of(b"changes"),
            ended: Ended::Exited,
            exit_code: 0,
            agent: Some(agent()),
            duration_ms: 5,
            hosts: vec![RequestedHost { host: "a.example".to_owned(), permitted: 2, refused: 1 }],
            hosts_more: 0,
        }
    }

    fn verify(text: &[u8], result: &RunResult, keys: &[ReceiptKey]) -> Result<Receipt, String> {
        let keys: Vec<_> = keys.iter().map(ReceiptKey::public).collect();
        Receipt::verify(text, result, &keys).map_err(|error| error.to_string())
    }

    #[test]
    fn receipt_is_that_of_one_result_and_one_key() {
        let text = receipt().sign(&result(0), &key()).unwrap();
        let other = ReceiptKey::new(&[8; 32]);
        assert_eq!(verify(&text, &result(0), &[other, key()]), Ok(receipt()));
        assert!(verify(&text, &result(1), &[key()]).unwrap_err().contains("is about another result"));
        assert!(verify(&text, &result(0), &[ReceiptKey::new(&[8; 32])]).unwrap_err().contains("another key"));
        for contradicting in [Receipt { exit_code: 3, ..receipt() }, Receipt { agent: None, ..receipt() }] {
            let text = contradicting.sign(&result(0), &key()).unwrap();
            assert!(verify(&text, &result(0), &[key()]).unwrap_err().contains("another result"));
        }
    }

    #[test]
    fn key_is_read_from_its_pem() {
        let public = key().public();
        assert_eq!(ReceiptPublicKey::from_pem(&public.to_pem()).unwrap(), public);
        let pem = public.to_pem();
        for bad in ["", "x", &pem.replace("PUBLIC", "PRIVATE"), &pem.replace("MCow", "MCox"), &pem.repeat(2)]
        {
            assert!(ReceiptPublicKey::from_pem(bad).is_err(), "{bad}");
        }
        assert!(!format!("{:?}", key()).contains("7, 7"));
        assert!(public.id().starts_with("SHA256:") && public.id().len() == 50, "{}", public.id());
    }

    #[test]
    fn last_character_of_a_payload_or_signature_has_one_form() {
        let text = String::from_utf8(receipt().sign(&result(0), &key()).unwrap()).unwrap();
        let payload = text.find(r#"","payloadType""#).unwrap();
        for end in [payload, text.find(r#""}]}"#).unwrap()] {
            let at = end - text[..end].bytes().rev().take_while(|byte| *byte == b'=').count() - 1;
            for other in (b'A'..=b'Z').filter(|other| *other != text.as_bytes()[at]) {
                let mut changed = text.clone().into_bytes();
                changed[at] = other;
                assert!(verify(&changed, &result(0), &[key()]).is_err(), "{}", char::from(other));
            }
        }
    }

    proptest! {
        #[test]
        fn changed_byte_of_a_receipt_is_refused(at in any::<prop::sample::Index>(), flip in 1..=255_u8, cut in any::<prop::sample::Index>()) {
            let text = receipt().sign(&result(0), &key()).unwrap();
            let mut changed = text.clone();
            changed[at.index(text.len())] ^= flip;
            prop_assert!(verify(&changed, &result(0), &[key()]).is_err());
            prop_assert!(verify(&text[..cut.index(text.len())], &result(0), &[key()]).is_err());
        }
    }
}
