//! What is searched for, and how: in bytes, in files, in the memory of a process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Texts that must not be found, and the places where one was.
pub(in crate::credentials) struct Needles {
    texts: Vec<String>,
    found: BTreeMap<&'static str, Vec<String>>,
}

/// Memory is read in pieces that overlap by more than the longest text.
const PIECE: u64 = 1 << 20;
const OVERLAP: u64 = 4096;

impl Needles {
    /// The values as they are, the core of their Base64 at each alignment, and their bytes in hexadecimal and as a URL may have them.
    pub(in crate::credentials) fn new(values: &[String]) -> Self {
        let forms = values.iter().flat_map(|value| {
            (0..3).map(|shift| base64_core(value, shift)).chain([
                value.clone(),
                hex(value, ""),
                hex(value, "").to_uppercase(),
                hex(value, "%").to_uppercase(),
            ])
        });
        Self {
            texts: forms.collect(),
            found: BTreeMap::new(),
        }
    }

    /// The places where one was found, and where exactly.
    pub(in crate::credentials) fn found(&self) -> &BTreeMap<&'static str, Vec<String>> {
        &self.found
    }

    /// Forgets what was found.
    pub(in crate::credentials) fn forget(&mut self) {
        self.found.clear();
    }

    /// Looks into `bytes`, which are `what` of `place`.
    pub(in crate::credentials) fn look(&mut self, place: &'static str, what: &str, bytes: &[u8]) {
        if self.are_in(bytes) {
            self.found.entry(place).or_default().push(what.to_owned());
        }
    }

    fn are_in(&self, bytes: &[u8]) -> bool {
        self.texts
            .iter()
            .any(|text| memchr::memmem::find(bytes, text.as_bytes()).is_some())
    }

    /// Looks into every file at and below the paths. What vanishes meanwhile is gone.
    pub(in crate::credentials) fn look_into_files<'a>(
        &mut self,
        place: &'static str,
        paths: impl IntoIterator<Item = &'a Path>,
    ) {
        // The texts go over stdin: an argument would itself be found.
        let mut grep = Command::new("grep")
            .args(["-r", "-s", "-l", "-a", "-F", "--devices=skip", "-f", "-", "--"])
            .args(paths)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("grep");
        let mut input = grep.stdin.take().expect("a pipe");
        let lines = self.texts.join("\n");
        input.write_all(lines.as_bytes()).expect("grep reads");
        drop(input);
        let output = grep.wait_with_output().expect("our own child");
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        for name in names.lines() {
            self.found.entry(place).or_default().push(name.to_owned());
        }
    }

    /// Looks into all memory of the process that can be read.
    pub(in crate::credentials) fn look_into_memory(&mut self, place: &'static str, pid: u32) {
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
                self.look(
                    place,
                    &format!("process {pid} at {at:x}"),
                    piece.get(..read).unwrap_or_default(),
                );
                at += PIECE;
            }
        }
    }
}

/// `7f00-7f10 r--p …`: the borders of a mapping that can be read.
fn readable(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let borders = (number(start)?, number(end)?);
    fields.next()?.starts_with('r').then_some(borders)
}

/// Each byte as two digits, behind `mark`.
fn hex(value: &str, mark: &str) -> String {
    let digits = value.bytes().map(|byte| format!("{mark}{byte:02x}"));
    digits.collect::<Vec<_>>().concat()
}

/// What the Base64 of any text has in common that holds `value` after `shift` bytes, modulo 3.
fn base64_core(value: &str, shift: usize) -> String {
    let encoded = STANDARD_NO_PAD.encode(format!("{}{value}", "x".repeat(shift)));
    let end = encoded.len() - 2;
    encoded
        .get(if shift == 0 { 0 } else { 4 }..end)
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn needles_are_found_in_bytes_and_within_base64_at_any_place() {
    let value = "a-value-of-some-length".to_owned();
    let mut needles = Needles::new(std::slice::from_ref(&value));
    needles.look("nowhere", "x", b"a-value-of-some-lengt h");
    assert!(needles.found().is_empty());
    for before in ["", "u", "us", "user"] {
        let encoded = STANDARD_NO_PAD.encode(format!("{before}:{value}:after"));
        needles.look("bytes", before, encoded.as_bytes());
    }
    assert_eq!(needles.found()["bytes"].len(), 4);
    for digits in [
        "x612d76616c75652d6f662d736f6d652d6c656e677468",
        "612D76616C75652D6F662D736F6D652D6C656E677468",
    ] {
        needles.look("digits", digits, digits.as_bytes());
    }
    assert_eq!(needles.found()["digits"].len(), 2);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), format!("\0binary {value}\0")).expect("a file");
    needles.look_into_files("files", [folder.path()]);
    assert_eq!(needles.found()["files"].len(), 1);
    needles.look_into_memory("memory", std::process::id());
    assert!(needles.found().contains_key("memory"));
}
