//! The Dockerfile of a sandboxed build: instructions that leave the sandbox are refused, and the
//! steps get the CAs to trust.
//!
//! Only `RUN` steps run in the sandbox. The engine does everything else, on the network of its
//! host. So instructions that make it download something or read files of the host are errors, and
//! so is any text that parsers could read in different ways or that is not supported.

use std::collections::{BTreeMap, HashMap};

use crate::error::ImageBuildError;

/// All instructions; a line that starts with anything else is refused.
const INSTRUCTIONS: [&str; 18] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "MAINTAINER",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];
/// Flags of `ADD` that do not change where it gets its files.
const ADD_FLAGS: [&str; 3] = ["--chmod=", "--chown=", "--link"];
/// Transports from which the engine reads base images instead of a registry, some of them from
/// files of the host.
const TRANSPORTS: [&str; 10] = [
    "atomic",
    "containers-storage",
    "dir",
    "docker",
    "docker-archive",
    "docker-daemon",
    "oci",
    "oci-archive",
    "ostree",
    "tarball",
];
/// Variables that a builder predefines, with harmless values.
const PREDEFINED: [&str; 8] = [
    "BUILDARCH",
    "BUILDOS",
    "BUILDPLATFORM",
    "BUILDVARIANT",
    "TARGETARCH",
    "TARGETOS",
    "TARGETPLATFORM",
    "TARGETVARIANT",
];

/// The mount of the trust folder in the steps, and the variables that point into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StepTrust<'a> {
    /// The name of the folder among the build's contexts.
    pub(super) name: &'a str,
    /// Its path in the steps.
    pub(super) target: &'a str,
    pub(super) variables: &'a BTreeMap<String, String>,
}

impl StepTrust<'_> {
    /// The flag for each step, with a trailing space.
    pub(super) fn flag(&self) -> String {
        format!("--mount=type=bind,from={},target={} ", self.name, self.target)
    }

    /// The arguments for each stage. The values contain no spaces or quotes.
    pub(super) fn arguments(&self) -> String {
        let pairs: Vec<String> =
            self.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join(" ")
    }
}

/// A Dockerfile whose steps can be confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Confined {
    text: String,
    /// The end of each `RUN` instruction, as a byte offset.
    steps: Vec<usize>,
    /// The start of the line after each `FROM`, as a byte offset.
    stages: Vec<usize>,
}

impl Confined {
    /// Parses `dockerfile`.
    pub(super) fn parse(dockerfile: &[u8]) -> Result<Self, ImageBuildError> {
        let refused =
            |line: usize, problem: &str| ImageBuildError::Dockerfile { line, problem: problem.to_owned() };
        let text = std::str::from_utf8(dockerfile).map_err(|_| refused(1, "is not UTF-8"))?;
        if text.contains('\0') {
            return Err(refused(1, "holds a NUL"));
        }
        let mut confined = Self { text: text.to_owned(), steps: Vec::new(), stages: Vec::new() };
        let mut judge = Judge::default();
        let mut lines = Lines::new(text);
        while let Some(instruction) =
            lines.next_instruction().map_err(|(line, problem)| refused(line, &problem))?
        {
            judge.admit(&instruction).map_err(|problem| refused(instruction.line, &problem))?;
            match &*instruction.keyword {
                "RUN" => confined.steps.push(instruction.after_keyword),
                "FROM" => confined.stages.push(instruction.end),
                _ => {}
            }
        }
        Ok(confined)
    }

    /// Whether it has any steps.
    pub(super) fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The text with `trust` added to each step.
    pub(super) fn with(&self, trust: &StepTrust<'_>) -> String {
        let flag = format!(" {}", trust.flag().trim_end());
        let arguments = format!("ARG {}\n", trust.arguments());
        let mut insertions: Vec<(usize, String)> = self.steps.iter().map(|at| (*at, flag.clone())).collect();
        insertions.extend(self.stages.iter().map(|at| (*at, arguments.clone())));
        insertions.sort_by_key(|(at, _)| *at);
        let mut whole = String::with_capacity(self.text.len() + insertions.len() * 1024);
        let mut copied = 0;
        for (at, insertion) in insertions {
            whole.push_str(self.text.get(copied..at).unwrap_or_default());
            if insertion.starts_with("ARG") && !whole.ends_with('\n') {
                whole.push('\n');
            }
            whole.push_str(&insertion);
            copied = at;
        }
        whole.push_str(self.text.get(copied..).unwrap_or_default());
        whole
    }
}

/// One instruction, its continued lines joined.
#[derive(Debug)]
struct Instruction {
    /// The number of its first line, from 1.
    line: usize,
    /// In upper case.
    keyword: String,
    /// Without surrounding white space.
    rest: String,
    /// The end of the keyword, as a byte offset.
    after_keyword: usize,
    end: usize,
}

struct Lines<'a> {
    rest: std::str::SplitInclusive<'a, char>,
    number: usize,
    at: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.split_inclusive('\n'), number: 0, at: 0 }
    }

    /// The next line, and its byte offset.
    fn next_line(&mut self) -> Option<(&'a str, usize)> {
        let line = self.rest.next()?;
        let begin = self.at;
        self.at += line.len();
        self.number += 1;
        Some((line, begin))
    }

    fn next_instruction(&mut self) -> Result<Option<Instruction>, (usize, String)> {
        let (line, begin, number) = loop {
            let Some((line, begin)) = self.next_line() else {
                return Ok(None);
            };
            let bare = line.trim_start_matches('\u{feff}').trim();
            if let Some(comment) = bare.strip_prefix('#') {
                directive(comment).map_err(|problem| (self.number, problem))?;
            } else if !bare.is_empty() {
                break (line, begin, self.number);
            }
        };
        let indent =
            line.len() - line.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').len();
        let (first, mut goes_on) = continued(line).map_err(|problem| (number, problem))?;
        let word = |text: &str| -> String {
            let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            text.split([' ', '\t', '\x0b', '\x0c', '\r']).next().unwrap_or_default().to_owned()
        };
        let own = word(first);
        let mut whole = first.to_owned();
        while goes_on {
            let Some((line, _)) = self.next_line() else { break };
            let bare = line.trim();
            if bare.is_empty() || bare.starts_with('#') {
                continue;
            }
            let (more, again) = continued(line).map_err(|problem| (self.number, problem))?;
            whole.push_str(more);
            goes_on = again;
        }
        let keyword = word(&whole);
        if keyword != own {
            return Err((number, "splits the name of an instruction over two lines".to_owned()));
        }
        let upper = keyword.to_ascii_uppercase();
        if !INSTRUCTIONS.contains(&&*upper) {
            let shown: String = keyword.chars().take(40).collect();
            return Err((
                number,
                format!("begins with `{}`, which is not an instruction", shown.escape_debug()),
            ));
        }
        let rest = whole.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        Ok(Some(Instruction {
            line: number,
            rest: rest.get(keyword.len()..).unwrap_or_default().trim().to_owned(),
            after_keyword: begin + indent + keyword.len(),
            keyword: upper,
            end: self.at,
        }))
    }
}

/// A line without its line ending, and whether the next line continues it.
fn continued(line: &str) -> Result<(&str, bool), String> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.contains('\r') {
        return Err("holds a carriage return".to_owned());
    }
    let bare = line.trim_end_matches([' ', '\t']);
    match bare.strip_suffix('\\') {
        // Old parsers read this as a continuation, new ones do not.
        Some(before) if before.ends_with('\\') => Err("ends with two backslashes".to_owned()),
        Some(before) => Ok((before, true)),
        None => Ok((line, false)),
    }
}

fn directive(comment: &str) -> Result<(), String> {
    let escape = comment.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("escape"));
    match escape {
        Some((_, value)) if value.trim() != "\\" => {
            Err("sets another escape character, which sandboxed builds do not support".to_owned())
        }
        _ => Ok(()),
    }
}

/// The state of the parser after the instructions so far.
#[derive(Debug, Default)]
struct Judge {
    /// The arguments before the first `FROM`.
    arguments: HashMap<String, String>,
    has_stage: bool,
}

impl Judge {
    fn admit(&mut self, instruction: &Instruction) -> Result<(), String> {
        let rest = &*instruction.rest;
        match &*instruction.keyword {
            "RUN" if rest.starts_with("--") => {
                Err("gives `RUN` a flag, which sandboxed builds do not support".to_owned())
            }
            "RUN" => no_here_document(rest),
            "ADD" => no_here_document(rest).and_then(|()| local_sources(rest)),
            "COPY" => no_here_document(rest).and_then(|()| plain_copy(rest)),
            "FROM" => {
                self.has_stage = true;
                self.plain_base(rest)
            }
            "ONBUILD" => Err("has `ONBUILD`, which sandboxed builds do not support".to_owned()),
            "ARG" if !self.has_stage => {
                self.arguments.extend(rest.split_whitespace().filter_map(|argument| {
                    let (name, value) = argument.split_once('=')?;
                    let value = value.trim_matches(['"', '\'']);
                    Some((name.to_owned(), value.to_owned()))
                }));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn plain_base(&self, rest: &str) -> Result<(), String> {
        let mut words = rest.split_whitespace().skip_while(|word| word.starts_with("--platform="));
        let base = words.next().unwrap_or_default();
        let expanded = self
            .expanded(base)
            .ok_or("names a base image by a variable whose value is not plain; write the name")?;
        plain_image(&expanded)
    }

    /// Replaces `$NAME` and `${NAME}`; `None` for other syntax or an unknown name.
    fn expanded(&self, text: &str) -> Option<String> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            expanded.push_str(before);
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (name, after) = match after.strip_prefix('{') {
                Some(braced) => braced.split_once('}')?,
                None => after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len())),
            };
            if name.is_empty() || !name.chars().all(is_name) {
                return None;
            }
            match self.arguments.get(name) {
                Some(value) => expanded.push_str(value),
                None if PREDEFINED.contains(&name) => expanded.push('x'),
                None => return None,
            }
            rest = after;
        }
        expanded.push_str(rest);
        Some(expanded)
    }
}

/// Refuses names that the engine does not look up locally or in a registry.
fn plain_image(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._/@:-".contains(c);
    let has_transport = name.split_once(':').is_some_and(|(before, _)| TRANSPORTS.contains(&before));
    if name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(good)
        && !name.contains("//")
        && !name.contains(":/")
        && !has_transport
    {
        return Ok(());
    }
    Err(format!(
        "takes an image from `{}`, which is not the name of an image in a registry",
        name.escape_debug()
    ))
}

fn plain_copy(rest: &str) -> Result<(), String> {
    rest.split_whitespace()
        .take_while(|word| word.starts_with("--"))
        .filter_map(|flag| flag.strip_prefix("--from="))
        .try_for_each(plain_image)
}

/// Every way to name something outside of the context needs one of these characters, or starts with
/// a flag.
fn local_sources(rest: &str) -> Result<(), String> {
    let mut words = rest.split_whitespace().peekable();
    while let Some(flag) = words.next_if(|word| word.starts_with("--")) {
        if !ADD_FLAGS.iter().any(|known| flag.starts_with(known)) {
            return Err(format!(
                "gives `ADD` the flag `{}`, which sandboxed builds do not support",
                flag.escape_debug()
            ));
        }
    }
    let words: Vec<&str> = words.collect();
    // The last word is the destination; in a list, all words are checked.
    let is_list = words.first().is_some_and(|word| word.starts_with('['));
    let sources = if is_list { &*words } else { words.split_last().map_or(&[][..], |(_, sources)| sources) };
    let is_remote = |source: &&str| {
        source.contains([':', '$', '@']) || source.trim_start_matches(['[', '"']).starts_with("github.com/")
    };
    if sources.iter().any(is_remote) {
        return Err(
            "has `ADD` of a URL or of a variable, which the engine would get outside of the sandbox; \
             download it in a `RUN` step, or use `COPY` for files"
                .to_owned(),
        );
    }
    Ok(())
}

fn no_here_document(rest: &str) -> Result<(), String> {
    let begins = |word: &str| {
        let word = word.trim_start_matches(|c: char| c.is_ascii_digit());
        word.strip_prefix("<<")
            .map(|name| name.strip_prefix('-').unwrap_or(name))
            .is_some_and(|name| !name.is_empty() && !name.starts_with('<'))
    };
    if rest.split_whitespace().any(begins) {
        return Err("has a here-document, which sandboxed builds do not support; put the text into a file and `COPY` it".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
