//! A package registry as npm reads it, with one package: `demo`.

use std::io::Write as _;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Response;
use serde_json::json;

use super::routes::{Body, full, not_found, text};

fn tarball() -> &'static [u8] {
    static TARBALL: OnceLock<Vec<u8>> = OnceLock::new();
    TARBALL.get_or_init(|| {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        let files = [
            (
                "package/package.json",
                json!({"name": "demo", "version": "1.0.0", "main": "index.js"}).to_string(),
            ),
            ("package/index.js", "module.exports = 'demo from npm';\n".to_owned()),
        ];
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, content.as_bytes()).expect("an archive in memory");
        }
        let mut encoder = archive.into_inner().expect("an archive in memory");
        encoder.flush().expect("an archive in memory");
        encoder.finish().expect("an archive in memory")
    })
}

pub(super) fn answer(host: &str, path: &str) -> Response<Body> {
    match path {
        "/demo" => text(
            &json!({
                "name": "demo",
                "dist-tags": {"latest": "1.0.0"},
                "versions": {"1.0.0": {
                    "name": "demo",
                    "version": "1.0.0",
                    "dist": {"tarball": format!("https://{host}/demo/-/demo-1.0.0.tgz")},
                }},
            })
            .to_string(),
        ),
        "/demo/-/demo-1.0.0.tgz" => Response::new(full(tarball())),
        _ => not_found(),
    }
}
