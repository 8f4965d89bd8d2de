//! Git configuration, read byte for byte as git reads it.

use std::iter::Peekable;
use std::slice::Iter;
use std::sync::Arc;

/// A setting. Section and key are in lower case. Those below one header share their section's name, which may
/// be long.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// The part of its name before the first dot.
    pub section: Arc<str>,
    /// The part between the first dot and the last one.
    pub subsection: Option<Arc<[u8]>>,
    /// The part after the last dot.
    pub key: String,
    /// `true` for a key without `=`, as git reads it.
    pub value: Vec<u8>,
}

impl Setting {
    /// Whether it is `section.key`, without a subsection.
    #[must_use]
    pub fn is(&self, section: &str, key: &str) -> bool {
        self.subsection.is_none() && *self.section == *section && self.key == key
    }

    /// Its name in the form that `git config` takes. Bytes that are not text are replaced.
    #[must_use]
    pub fn name(&self) -> String {
        let section = &self.section;
        match &self.subsection {
            None => format!("{section}.{}", self.key),
            Some(middle) => format!("{section}.{}.{}", String::from_utf8_lossy(middle), self.key),
        }
    }
}

/// Parses `text`. Values end at a NUL, as they do in the git programs that execute something;
/// `None` if git would refuse the text.
#[must_use]
pub fn settings(text: &[u8]) -> Option<Vec<Setting>> {
    settings_within(text, usize::MAX, usize::MAX).ok()
}

/// A section and its subsection.
type Head = (Arc<str>, Option<Arc<[u8]>>);

/// The reason why settings are not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Git would refuse them.
    Broken,
    TooMany,
}

/// As [`settings`], with at most `most` settings and at most `names` bytes of section names in all, counted
/// for each setting: [`Setting::name`] repeats them.
pub(crate) fn settings_within(text: &[u8], most: usize, names: usize) -> Result<Vec<Setting>, Refusal> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader { bytes: text.iter().peekable() };
    let mut settings = Vec::new();
    let mut room = names;
    // Settings before the first section belong to none.
    let mut head = (Arc::from(""), None);
    while let Some(byte) = reader.next() {
        match byte {
            byte if is_blank(byte) => {}
            b'#' | b';' => reader.skip_line(),
            b'[' => head = reader.head().ok_or(Refusal::Broken)?,
            byte if byte.is_ascii_alphabetic() => {
                let (section, subsection): &Head = &head;
                let length = section.len() + subsection.as_ref().map_or(0, |name| name.len());
                room = room.checked_sub(length).filter(|_| settings.len() < most).ok_or(Refusal::TooMany)?;
                let (section, subsection) = (section.clone(), subsection.clone());
                let (key, mut value) = reader.setting(byte).ok_or(Refusal::Broken)?;
                let end = value.iter().position(|byte| *byte == 0);
                value.truncate(end.unwrap_or(value.len()));
                settings.push(Setting { section, subsection, key, value });
            }
            _ => return Err(Refusal::Broken),
        }
    }
    Ok(settings)
}

/// The remaining bytes.
struct Reader<'a> {
    bytes: Peekable<Iter<'a, u8>>,
}

impl Reader<'_> {
    /// The next byte; the end of a line counts as one byte.
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.next()?;
        if byte == b'\r' && self.bytes.next_if(|next| **next == b'\n').is_some() {
            return Some(b'\n');
        }
        Some(byte)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// The rest of a section header after `[`: `core]`, `remote "origin"]`, or the older
    /// `remote.origin]`.
    fn head(&mut self) -> Option<Head> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => break,
                byte if is_blank(byte) => {
                    name.push(b'.');
                    self.quoted(byte, &mut name)?;
                    break;
                }
                byte if is_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
        let (section, subsection) = match name.iter().position(|byte| *byte == b'.') {
            Some(dot) => (name.get(..dot)?, Some(Arc::from(name.get(dot + 1..)?))),
            None => (name.as_slice(), None),
        };
        let section = Arc::from(str::from_utf8(section).ok()?);
        (!name.is_empty()).then_some((section, subsection))
    }

    /// The rest of `remote "origin"]`, after the first blank.
    fn quoted(&mut self, blank: u8, name: &mut Vec<u8>) -> Option<()> {
        let mut byte = blank;
        while is_blank(byte) {
            if byte == b'\n' {
                return None;
            }
            byte = self.next()?;
        }
        if byte != b'"' {
            return None;
        }
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => name.push(self.next().filter(|byte| *byte != b'\n')?),
                byte => name.push(byte),
            }
        }
        (self.next()? == b']').then_some(())
    }

    /// A key that begins with `first`, and its value.
    fn setting(&mut self, first: u8) -> Option<(String, Vec<u8>)> {
        let mut key = String::from(char::from(first.to_ascii_lowercase()));
        let mut byte = self.next();
        while let Some(next) = byte.filter(|byte| is_key(*byte)) {
            key.push(char::from(next.to_ascii_lowercase()));
            byte = self.next();
        }
        while matches!(byte, Some(b' ' | b'\t')) {
            byte = self.next();
        }
        let value = match byte {
            None | Some(b'\n') => b"true".to_vec(),
            Some(b'=') => self.value()?,
            Some(_) => return None,
        };
        Some((key, value))
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let mut is_quoted = false;
        // The start of blanks that may end the line.
        let mut end = None;
        loop {
            let byte = match self.next() {
                None | Some(b'\n') if is_quoted => return None,
                None | Some(b'\n') => break,
                Some(byte) => byte,
            };
            match byte {
                byte if is_blank(byte) && !is_quoted => {
                    end.get_or_insert(value.len());
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !is_quoted => {
                    self.skip_line();
                    break;
                }
                _ => end = None,
            }
            match byte {
                b'\\' => match self.next() {
                    // Git treats the end of the text as the end of a line.
                    None | Some(b'\n') => {}
                    Some(b't') => value.push(b'\t'),
                    Some(b'b') => value.push(8),
                    Some(b'n') => value.push(b'\n'),
                    Some(byte @ (b'\\' | b'"')) => value.push(byte),
                    Some(_) => return None,
                },
                b'"' => is_quoted = !is_quoted,
                byte => value.push(byte),
            }
        }
        value.truncate(end.unwrap_or(value.len()));
        Some(value)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn settings_below_one_header_share_its_name() {
        let text = format!("[a \"{}\"]\n{}", "x".repeat(1000), "k = v\n".repeat(3));
        let names: Vec<_> =
            settings(text.as_bytes()).unwrap().into_iter().map(|it| it.subsection.unwrap()).collect();
        assert_eq!(names.len(), 3);
        assert!(
            names.iter().all(|name| Arc::ptr_eq(name, &names[0])),
            "a copy for each would take n² memory"
        );
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = b"\xef\xbb\xbf; c\r\n[Core]Bare\r\nhooksPath = a\\\n b \\\"c\\\"  # d\n[remote  \"O.\\\"x\"] url = \" a;b \" \n[branch.Dev]\n\tmerge =\t\n";
        let read: Vec<(String, String)> = settings(text)
            .unwrap()
            .into_iter()
            .map(|it| (it.name(), String::from_utf8(it.value).unwrap()))
            .collect();
        let expected = [
            ("core.bare", "true"),
            ("core.hookspath", "a b \"c\""),
            ("remote.O.\"x.url", " a;b "),
            ("branch.dev.merge", ""),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read, expected);
        for refused in ["[]\na = b", "[core]\nhooksPath = \"h\\", "[core \"a\\", "[core"] {
            assert_eq!(settings(refused.as_bytes()), None, "{refused}");
        }
    }

    #[test]
    fn settings_above_the_limit_are_refused() {
        let text = b"[a \"0123456789\"]\nb\nc\n";
        assert_eq!(settings_within(text, 2, 22).unwrap().len(), 2);
        assert_eq!(settings_within(text, 1, 22), Err(Refusal::TooMany));
        assert_eq!(settings_within(text, 2, 21), Err(Refusal::TooMany));
        assert_eq!(settings_within(b"[a", 2, 21), Err(Refusal::Broken));
    }

    #[test]
    fn settings_that_git_accepts_are_read() {
        for text in [
            &b"[core]\n hooksPath = h\\"[..],
            b"before = any section\n[core]\nhooksPath=h",
            b"[.odd]\n a = b\n[ \"odd\"]\n[.]\n[core]\nhooksPath=h",
            b"# \0\n[core]\nhooksPath=h\0 and more",
        ] {
            let all = settings(text).unwrap_or_default();
            let hooks = all.iter().find(|setting| setting.is("core", "hookspath"));
            assert_eq!(hooks.map(|it| it.value.as_slice()), Some(&b"h"[..]), "{}", text.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: Vec<u8>) {
            let _ = settings(&text);
        }
    }
}
