//! The search: for encodings of the values, in bytes, in files and their compressed content, and in
//! the memory of a process.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Texts that must not be found, and the places where one was found.
pub(crate) struct Needles {
    texts: Vec<String>,
    found: BTreeMap<&'static str, Vec<String>>,
}

/// Memory is read in pieces whose overlap is longer than any text.
const PIECE: u64 = 1 << 20;
const OVERLAP: u64 = 4096;
/// The first bytes of each member of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b, 8];
/// The most that is unpacked of one member.
const UNPACKED: u64 = 64 << 20;

impl Needles {
    /// Searches for the plain values, the core of their Base64 at each alignment in both alphabets,
    /// and their hexadecimal and URL encodings.
    pub(crate) fn new(values: &[String]) -> Self {
        let forms = values.iter().flat_map(|value| {
            let base64 = [STANDARD_NO_PAD, URL_SAFE_NO_PAD]
                .into_iter()
                .flat_map(move |engine| (0..3).map(move |shift| base64_core(&engine, value, shift)));
            base64.chain([
                value.clone(),
                hex(value, ""),
                hex(value, "").to_uppercase(),
                hex(value, "%"),
                hex(value, "%").to_uppercase(),
                in_url(value),
            ])
        });
        let texts: BTreeSet<String> = forms.collect();
        Self { texts: texts.into_iter().collect(), found: BTreeMap::new() }
    }

    /// The places where one was found, with the exact positions.
    pub(crate) fn found(&self) -> &BTreeMap<&'static str, Vec<String>> {
        &self.found
    }

    /// Forgets what was found.
    pub(crate) fn forget(&mut self) {
        self.found.clear();
    }

    /// Searches `bytes`, which are `what` of `place`.
    pub(crate) fn look(&mut self, place: &'static str, what: &str, bytes: &[u8]) {
        if self.are_in(bytes) {
            self.found.entry(place).or_default().push(what.to_owned());
        }
    }

    fn are_in(&self, bytes: &[u8]) -> bool {
        self.texts.iter().any(|text| memchr::memmem::find(bytes, text.as_bytes()).is_some())
    }

    /// Searches every file at and below the paths, including compressed content. Files that vanish
    /// meanwhile are skipped.
    pub(crate) fn look_into_files<'a>(
        &mut self,
        place: &'static str,
        paths: impl IntoIterator<Item = &'a Path>,
    ) {
        let paths: Vec<&Path> = paths.into_iter().collect();
        let texts = self.texts.join("\n");
        for name in files_with(texts.as_bytes(), &paths) {
            let name = name.to_string_lossy().into_owned();
            self.found.entry(place).or_default().push(name);
        }
        for name in files_with(GZIP, &paths) {
            let bytes = std::fs::read(&name).unwrap_or_default();
            for at in memchr::memmem::find_iter(&bytes, GZIP) {
                let mut unpacked = Vec::new();
                let member = bytes.get(at..).unwrap_or_default();
                // A truncated or false member yields the data up to its end.
                let _ = GzDecoder::new(member).take(UNPACKED).read_to_end(&mut unpacked);
                self.look(place, &format!("{} unpacked at {at}", name.display()), &unpacked);
            }
        }
    }

    /// Searches all readable memory of the process.
    pub(crate) fn look_into_memory(&mut self, place: &'static str, pid: u32) {
        let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else {
            return;
        };
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for (start, end) in maps.lines().filter_map(readable) {
            let mut at = start;
            while at < end {
                let length = (end - at).min(PIECE + OVERLAP);
                let mut piece = vec![0; usize::try_from(length).unwrap_or_default()];
                // Some mappings cannot be read in spite of their permissions, `[vvar]` for one.
                let read = memory.read_at(&mut piece, at).unwrap_or_default();
                self.look(place, &format!("process {pid} at {at:x}"), piece.get(..read).unwrap_or_default());
                at += PIECE;
            }
        }
    }
}

/// The files at and below the paths that contain one of the lines of `texts`. A machine may have
/// more files than fit on one command line.
fn files_with(texts: &[u8], paths: &[&Path]) -> Vec<PathBuf> {
    paths.chunks(500).flat_map(|paths| files_of(texts, paths)).collect()
}

fn files_of(texts: &[u8], paths: &[&Path]) -> Vec<PathBuf> {
    // The texts are passed on stdin: arguments would themselves be found.
    let mut grep = Command::new("grep")
        .args(["-r", "-s", "-l", "-Z", "-a", "-F", "--devices=skip", "-f", "-", "--"])
        .args(paths)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("grep");
    let mut input = grep.stdin.take().expect("a pipe");
    input.write_all(texts).expect("grep reads");
    drop(input);
    let output = grep.wait_with_output().expect("our own child");
    let names = output.stdout.split(|byte| *byte == 0);
    names.filter(|name| !name.is_empty()).map(|name| OsStr::from_bytes(name).into()).collect()
}

/// The bounds of a readable mapping, from a line such as `7f00-7f10 r--p …`.
fn readable(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let borders = (number(start)?, number(end)?);
    fields.next()?.starts_with('r').then_some(borders)
}

/// Each byte as two hexadecimal digits, preceded by `mark`.
fn hex(value: &str, mark: &str) -> String {
    let digits = value.bytes().map(|byte| format!("{mark}{byte:02x}"));
    digits.collect::<Vec<_>>().concat()
}

/// Percent-encodes special characters, as in a URL.
fn in_url(value: &str) -> String {
    let escaped = value.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    escaped.collect()
}

/// The common part of the Base64 of all texts that contain `value` at an offset of `shift` modulo
/// 3.
fn base64_core(engine: &GeneralPurpose, value: &str, shift: usize) -> String {
    let encoded = engine.encode(format!("{}{value}", "x".repeat(shift)));
    let end = encoded.len() - 2;
    encoded.get(if shift == 0 { 0 } else { 4 }..end).unwrap_or_default().to_owned()
}

#[test]
fn needles_are_found_in_bytes_and_in_base64_at_any_offset() {
    let value = "a-value-of-some-length".to_owned();
    let mut needles = Needles::new(std::slice::from_ref(&value));
    needles.look("nowhere", "x", b"a-value-of-some-lengt h");
    assert!(needles.found().is_empty());
    for before in ["", "u", "us", "user"] {
        let encoded = STANDARD_NO_PAD.encode(format!("{before}:{value}:after"));
        needles.look("bytes", before, encoded.as_bytes());
    }
    assert_eq!(needles.found()["bytes"].len(), 4);
    // The two alphabets encode these bytes differently.
    let special = "~~~???>>>~~~???>>>".to_owned();
    let mut others = Needles::new(std::slice::from_ref(&special));
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        let encoded = engine.encode(format!("u:{special}:after"));
        others.look("bytes", "both", encoded.as_bytes());
    }
    others.look("bytes", "url", b"~~~%3F%3F%3F%3E%3E%3E~~~%3F%3F%3F%3E%3E%3E");
    assert_eq!(others.found()["bytes"].len(), 3);
    for digits in
        ["x612d76616c75652d6f662d736f6d652d6c656e677468", "612D76616C75652D6F662D736F6D652D6C656E677468"]
    {
        needles.look("digits", digits, digits.as_bytes());
    }
    assert_eq!(needles.found()["digits"].len(), 2);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), format!("\0binary {value}\0")).expect("a file");
    needles.look_into_files("files", [folder.path()]);
    assert_eq!(needles.found()["files"].len(), 1);
    needles.forget();
    // Two members: the second is in the middle of the file and does not show the value.
    let packed = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text.as_bytes()).expect("memory");
        encoder.finish().expect("memory")
    };
    let file = [packed("nothing"), b"between".to_vec(), packed(&format!("{value} {value}"))].concat();
    std::fs::write(folder.path().join("file"), file).expect("a file");
    needles.look_into_files("files", [folder.path()]);
    let found = needles.found()["files"].join(" ");
    assert!(found.contains("unpacked at "), "{found}");
    needles.look_into_memory("memory", std::process::id());
    assert!(needles.found().contains_key("memory"));
}
