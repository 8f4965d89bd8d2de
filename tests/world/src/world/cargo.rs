//! A registry as cargo reads it, with one package: `demo`.

use std::sync::OnceLock;

use hyper::Response;
use serde_json::json;

use super::apt::sha256;
use super::archive::tar_gz;
use super::routes::{Body, full, not_found, text};

fn package() -> &'static [u8] {
    static PACKAGE: OnceLock<Vec<u8>> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        tar_gz(&[
            (
                "demo-1.0.0/Cargo.toml",
                "[package]\nname = \"demo\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
            ),
            ("demo-1.0.0/src/lib.rs", "pub const GREETING: &str = \"demo from cargo\";\n"),
        ])
    })
}

pub(super) fn answer(host: &str, path: &str) -> Response<Body> {
    match path {
        "/index/config.json" => text(&json!({"dl": format!("https://{host}/crates")}).to_string()),
        "/index/de/mo/demo" => {
            let entry = json!({
                "name": "demo", "vers": "1.0.0", "deps": [], "features": {}, "yanked": false, "cksum": sha256(package()),
            });
            text(&format!("{entry}\n"))
        }
        "/crates/demo/1.0.0/download" => Response::new(full(package())),
        _ => not_found(),
    }
}
