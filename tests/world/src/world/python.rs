//! A package index as pip reads it, with one package: `demo`.

use std::io::Write as _;
use std::sync::OnceLock;

use hyper::Response;
use hyper::header::HeaderValue;
use zip::write::SimpleFileOptions;

use super::routes::{Body, full, not_found, text};

const WHEEL: &str = "demo-1.0.0-py3-none-any.whl";

fn wheel() -> &'static [u8] {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENT.get_or_init(|| {
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        let files = [
            ("demo.py", "GREETING = 'demo from pip'\n"),
            ("demo-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0.0\n"),
            ("demo-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("demo-1.0.0.dist-info/RECORD", ""),
        ];
        for (path, content) in files {
            archive.start_file(path, options).expect("an archive in memory");
            archive.write_all(content.as_bytes()).expect("an archive in memory");
        }
        archive.finish().expect("an archive in memory").into_inner()
    })
}

pub(super) fn answer(path: &str) -> Response<Body> {
    if path == "/simple/demo/" {
        let mut page = text(&format!("<!DOCTYPE html><a href=\"/files/{WHEEL}\">{WHEEL}</a>"));
        page.headers_mut().insert("content-type", HeaderValue::from_static("text/html"));
        return page;
    }
    match path.strip_prefix("/files/") {
        Some(WHEEL) => Response::new(full(wheel())),
        _ => not_found(),
    }
}
