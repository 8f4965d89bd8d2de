//! A module proxy as Go reads it, with a few modules.

use std::io::Write as _;

use hyper::Response;
use serde_json::json;
use zip::write::SimpleFileOptions;

use super::routes::{Body, full, not_found, text};

const VERSION: &str = "v1.0.0";
const MODULES: [&str; 4] = ["demo.test/greeting", "demo.test/name", "demo.test/place", "demo.test/time"];

fn archive(module: &str) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let code = "package demo\n\nconst Greeting = \"demo from go\"\n";
    for (name, content) in [("go.mod", description(module).as_str()), ("demo.go", code)] {
        archive.start_file(format!("{module}@{VERSION}/{name}"), options).expect("an archive in memory");
        archive.write_all(content.as_bytes()).expect("an archive in memory");
    }
    archive.finish().expect("an archive in memory").into_inner()
}

fn description(module: &str) -> String {
    format!("module {module}\n\ngo 1.19\n")
}

pub(super) fn answer(path: &str) -> Response<Body> {
    let Some((module, file)) = path.trim_start_matches('/').split_once("/@v/") else { return not_found() };
    if !MODULES.contains(&module) {
        return not_found();
    }
    match file.strip_prefix(VERSION) {
        Some(".info") => text(&json!({"Version": VERSION, "Time": "2026-02-03T12:34:56Z"}).to_string()),
        Some(".mod") => text(&description(module)),
        Some(".zip") => Response::new(full(archive(module))),
        _ => not_found(),
    }
}
