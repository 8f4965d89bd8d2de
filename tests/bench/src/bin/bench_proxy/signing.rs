//! A chunked upload to S3 that the proxy re-signs, compared with the same bytes merely forwarded.

use std::time::Instant;

use allowlist::HostPattern;
use anyhow::{Context, Result, bail};
use benchmarks::Sample;
use sandbox::credentials::{
    AwsAccessKey, SecretReplacements, SecretValue, SecretVariable, SigningCredential, prepare_secrets,
};

use super::connection::{Connection, Destination, Protocol, Upload};
use super::process::{HOST, Plan, Proxy};
use super::report::Signing;

/// The data of one chunk, as SDKs send it.
const CHUNK: usize = 64 * 1024;
const HEX_SIGNATURE: usize = 64;

/// The amount of work.
pub(crate) struct Effort {
    /// Uploads of each kind, alternating.
    pub(crate) rounds: u32,
    /// Bytes of data per upload.
    pub(crate) transfer: u64,
    /// Bytes of data in one more signed upload, for the memory measurement.
    pub(crate) long: u64,
}

/// Measures both kinds of upload through a separate proxy.
pub(crate) async fn measure(plan: &Plan<'_>, effort: &Effort) -> Result<Signing> {
    let (key_id, replacements) = credential()?;
    let proxy = Proxy::start(&Plan { replacements, ..*plan }).await?;
    let proxied = Destination::new(plan.listen, &plan.authorities.root_pem, "")?;
    let (mut passed, mut signed) = (Sample::default(), Sample::default());
    for _ in 0..effort.rounds {
        passed.push(rate(&proxied, chunked(effort.transfer, None)).await?);
        signed.push(rate(&proxied, chunked(effort.transfer, Some(&key_id))).await?);
    }
    rate(&proxied, chunked(effort.long, Some(&key_id))).await?;
    let memory = proxy.memory()?;
    proxy.stop().await?;
    Ok(Signing {
        passed_mb_per_second: passed.median(),
        signed_mb_per_second: signed.median(),
        long_bytes: effort.long,
        peak_kib: memory.peak,
    })
}

/// The key id of the client, and its replacement in the proxy.
fn credential() -> Result<(String, SecretReplacements)> {
    let part = |name: &str, value: &str| SecretVariable::new(name, SecretValue::new(value));
    let key = SigningCredential::aws(AwsAccessKey {
        name: "BENCH".to_owned(),
        access_key_id: part("KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        secret_access_key: part("SECRET", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        session_token: None,
        scopes: vec![HostPattern::new(HOST).context("no pattern")?],
    });
    let prepared = prepare_secrets(&[], &[key]).context("failed to prepare the key")?;
    let key_id = prepared.env_vars().get("KEY_ID").context("no key id")?.clone();
    Ok((key_id, prepared.into_replacements()))
}

/// A chunked body with `data` bytes of data, and the headers of a signed upload.
fn chunked(data: u64, key_id: Option<&str>) -> Upload {
    let head = |size: usize| format!("{size:x};chunk-signature={}\r\n", "0".repeat(HEX_SIGNATURE));
    let mut piece = head(CHUNK).into_bytes();
    piece.resize(piece.len() + CHUNK, 0);
    piece.extend_from_slice(b"\r\n");
    let mut last = head(0).into_bytes();
    last.extend_from_slice(b"\r\n");
    let headers = key_id.map_or_else(Vec::new, |key_id| {
        let signature = "0".repeat(HEX_SIGNATURE);
        let names = "host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length";
        vec![
            (
                "authorization",
                format!(
                    "AWS4-HMAC-SHA256 Credential={key_id}/20260101/eu-west-1/s3/aws4_request, SignedHeaders={names}, Signature={signature}"
                ),
            ),
            ("x-amz-date", "20260101T000000Z".to_owned()),
            ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD".to_owned()),
            ("x-amz-decoded-content-length", data.to_string()),
        ]
    });
    Upload { pieces: data / CHUNK as u64, piece: piece.into(), last: last.into(), headers }
}

/// Megabytes of body per second.
async fn rate(to: &Destination, upload: Upload) -> Result<f64> {
    let length = upload.length();
    let mut connection = Connection::open(to, Protocol::Http1).await?;
    let begin = Instant::now();
    connection.send_upload(upload).await?;
    let seconds = begin.elapsed().as_secs_f64();
    if seconds <= 0.0 {
        bail!("the clock has stopped");
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    Ok(length as f64 / 1e6 / seconds)
}
