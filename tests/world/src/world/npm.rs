//! A package registry as npm reads it, with one package: `demo`.

use std::sync::OnceLock;

use hyper::Response;
use serde_json::json;

use super::archive::tar_gz;
use super::routes::{Body, full, not_found, text};

fn tarball() -> &'static [u8] {
    static TARBALL: OnceLock<Vec<u8>> = OnceLock::new();
    TARBALL.get_or_init(|| {
        let manifest = json!({"name": "demo", "version": "1.0.0", "main": "index.js"}).to_string();
        tar_gz(&[
            ("package/package.json", &manifest),
            ("package/index.js", "module.exports = 'demo from npm';\n"),
        ])
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
