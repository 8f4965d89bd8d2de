//! A package archive as apt reads it, with one package: `demo`. It has no signature.

use std::fmt::Write as _;
use std::sync::OnceLock;

use hyper::Response;
use sha2::{Digest as _, Sha256};

use super::archive::tar;
use super::routes::{Body, full, not_found, text};

const DEB: &str = "pool/main/d/demo/demo_1.0.0_all.deb";

/// What the package is, without the file that it is in.
const CONTROL: &str =
    "Package: demo\nVersion: 1.0.0\nArchitecture: all\nMaintainer: Demo <demo@apt.test>\nDescription: demo\n";

pub(super) fn answer(path: &str) -> Response<Body> {
    let packages = packages();
    match path.strip_prefix("/debian/").unwrap_or_default() {
        "dists/stable/Release" => {
            let architectures = "amd64 arm64";
            let mut release = format!(
                "Suite: stable\nCodename: stable\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: {architectures}\nComponents: main\nSHA256:\n"
            );
            for architecture in architectures.split(' ') {
                let digest = sha256(packages.as_bytes());
                // Writing to a string cannot fail.
                let _ = writeln!(release, " {digest} {} main/binary-{architecture}/Packages", packages.len());
            }
            text(&release)
        }
        "dists/stable/main/binary-amd64/Packages" | "dists/stable/main/binary-arm64/Packages" => {
            text(packages)
        }
        DEB => Response::new(full(deb())),
        _ => not_found(),
    }
}

fn packages() -> &'static str {
    static PACKAGES: OnceLock<String> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        format!("{CONTROL}Filename: {DEB}\nSize: {}\nSHA256: {}\n", deb().len(), sha256(deb()))
    })
}

fn deb() -> &'static [u8] {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let members = [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar", tar(&[("./control", CONTROL)])),
            ("data.tar", tar(&[("./usr/share/demo/greeting", "demo from apt\n")])),
        ];
        let mut archive = b"!<arch>\n".to_vec();
        for (name, content) in members {
            let head = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, content.len());
            archive.extend(head.as_bytes());
            archive.extend(&content);
            if content.len() % 2 == 1 {
                archive.push(b'\n');
            }
        }
        archive
    })
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
