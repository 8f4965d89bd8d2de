//! Guarantees of the sandbox's own actions, on an engine that does not perform them.

use std::path::{Path, PathBuf};

use e2e_tests::assert_held;
use e2e_tests::fixture::{self, Fixture};
use e2e_tests::setting::Setting;
use sandbox::diagnostics::VerifySpec;
use sandbox::{EngineAddress, Isolation};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::report::untrusted_limits;

/// The lie of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// It confirms a signal that it does not send.
    Kill,
    /// It reports exit code 41 instead of 42.
    Code,
    /// The same, and its monitors are other processes than it reports, so that what they record is
    /// not visible.
    CodeWithoutMonitor,
    /// None.
    None,
}

/// Starts a relay between the sandbox and the engine, on a socket in `folder`.
fn start_relay(lie: Lie, folder: &Path) -> PathBuf {
    let path = folder.join(format!("{lie:?}.sock"));
    let listener = UnixListener::bind(&path).expect("a socket");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(relay(client, lie));
        }
    });
    path
}

/// Relays one connection. Requests are sequential, each with its head in one piece.
async fn relay(mut client: UnixStream, lie: Lie) {
    let socket = Setting::of_this_run().engine.trim_start_matches("unix://");
    let mut engine = UnixStream::connect(socket).await.expect("the engine's socket");
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut is_wait = false;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Some(bytes) = received(&mut asked, read) else { return };
                let head = String::from_utf8_lossy(bytes).into_owned();
                is_wait = head.contains("/wait?");
                let sent = if lie == Lie::Kill && head.contains("/kill?") {
                    client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await
                } else {
                    engine.write_all(bytes).await
                };
                if sent.is_err() { return }
            }
            read = engine.read(&mut answered) => {
                let Some(bytes) = received(&mut answered, read) else { return };
                if lie == Lie::CodeWithoutMonitor {
                    hide_monitor(bytes);
                }
                if matches!(lie, Lie::Code | Lie::CodeWithoutMonitor) && is_wait && let Some(at) = bytes.windows(3).position(|three| three == b"42\n") {
                    bytes.iter_mut().skip(at + 1).take(1).for_each(|digit| *digit = b'1');
                }
                if client.write_all(bytes).await.is_err() { return }
            }
        }
    }
}

/// Replaces the number of the monitor in the report on a container, near the beginning of the answer.
fn hide_monitor(answer: &mut [u8]) {
    const FIELD: &[u8] = b"\"ConmonPid\":";
    if let Some(at) = answer.windows(FIELD.len()).position(|bytes| bytes == FIELD) {
        let digits = answer.iter_mut().skip(at + FIELD.len()).take_while(|byte| byte.is_ascii_digit());
        digits.for_each(|digit| *digit = b'9');
    }
}

fn received(buffer: &mut [u8], read: std::io::Result<usize>) -> Option<&mut [u8]> {
    let length = read.ok().filter(|length| *length > 0)?;
    buffer.get_mut(..length)
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_that_ignores_kills_or_changes_exit_codes_is_detected_or_not_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    for (lie, expected) in [
        (Lie::None, &[][..]),
        // The exit is read where the monitor recorded it.
        (Lie::Code, &[]),
        (Lie::CodeWithoutMonitor, &["exit_code_preserved"]),
        (Lie::Kill, &["timeout_enforced"]),
    ] {
        let mut config = fixture::config(&fixture::state_dir());
        config.engine = EngineAddress::unix(start_relay(lie, folder.path()));
        let fixture = Fixture::with(config).await;
        let spec = VerifySpec::new(fixture.image.clone(), Isolation::untrusted(), untrusted_limits());
        match fixture.sandbox.verify(spec).await {
            Ok(report) => {
                let broken: Vec<&str> = report.broken().map(|finding| finding.check.id()).collect();
                assert_held!(expected.is_empty() || !broken.is_empty(), "{lie:?} is not detected");
                assert_eq!(broken, expected, "{lie:?}: {report:#?}");
            }
            // Reports of the engine are cross-checked, so a lie can be an error before it is a
            // finding.
            Err(error) => assert!(!expected.is_empty(), "{lie:?}: {error}"),
        }
        fixture.close().await;
    }
}
