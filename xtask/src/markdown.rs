//! The parts of the project's documents that a program can check: links, their targets, and blocks
//! of code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A fenced block of code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// The number of its first line in the document, starting at 1.
    pub(crate) line: usize,
    /// Its language, such as `console`.
    pub(crate) kind: &'a str,
    pub(crate) lines: Vec<&'a str>,
    /// The HTML comment right before it.
    pub(crate) comment: Option<String>,
}

/// The blocks of a document in order.
pub(crate) fn blocks(text: &str) -> Vec<Block<'_>> {
    const FENCE: &str = "```";
    let (mut blocks, mut comment) = (Vec::new(), None);
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let content = line.trim_start();
        if let Some(kind) = content.strip_prefix(FENCE) {
            let indent = line.strip_suffix(content).unwrap_or_default();
            let inner = lines.by_ref().map(|(line, _)| line.strip_prefix(indent).unwrap_or(line));
            let inner = inner.take_while(|line| !line.starts_with(FENCE)).collect();
            blocks.push(Block { line: number + 1, kind: kind.trim(), lines: inner, comment: comment.take() });
        } else if let Some(first) = content.strip_prefix("<!--") {
            let mut text = first.to_owned();
            while !text.contains("-->")
                && let Some((line, _)) = lines.next()
            {
                text.push('\n');
                text.push_str(line.trim_start());
            }
            comment = text.split_once("-->").map(|(text, _)| text.trim().to_owned());
        } else if !content.is_empty() {
            comment = None;
        }
    }
    blocks
}

/// The lines of a document without its blocks of code, which contain neither links nor headings.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<&str> = None;
    text.lines().filter(move |line| {
        let start = line.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|marker| start.starts_with(marker));
        match (fence, marker) {
            (None, Some(marker)) => fence = Some(marker),
            (Some(open), Some(marker)) if open == marker => fence = None,
            (open, _) => return open.is_none(),
        }
        false
    })
}

/// The targets of all links and images that lead to other files or within the document.
fn relative_links(text: &str) -> Vec<&str> {
    let inline = |line: &'_ str| -> Vec<(usize, usize)> {
        let starts = line.match_indices("](").map(|(at, _)| at + 2);
        starts.filter_map(|start| Some((start, start + line.get(start..)?.find(')')?))).collect()
    };
    let mut links = Vec::new();
    for line in prose(text) {
        links.extend(inline(line).into_iter().filter_map(|(start, end)| line.get(start..end)));
        // `[name]: target`
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        links.extend(definition.and_then(|(_, target)| target.split_whitespace().next()));
    }
    links.retain(|link| !link.contains("://") && !link.starts_with("mailto:"));
    links
}

/// The valid anchors (`#…`) of a document: its headings, as forges spell them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor = anchor(heading.trim());
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// All documents in a folder and its subfolders, by their paths in the folder, sorted.
pub(crate) fn documents_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut documents, mut left) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(part) = left.pop() {
        let path = folder.join(&part);
        let entries = fs::read_dir(&path).with_context(|| format!("failed to read {}", path.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = part.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                left.push(name);
            } else if name.extension().is_some_and(|extension| extension == "md") {
                documents.push(name);
            }
        }
    }
    documents.sort();
    Ok(documents)
}

/// Fails unless every relative link of every document in `folder` leads to something in `folder`.
pub(crate) fn check_links(folder: &Path) -> Result<()> {
    let mut broken = Vec::new();
    for document in documents_in(folder)? {
        let text = read(&folder.join(&document))?;
        for link in relative_links(&text) {
            if let Some(problem) = problem(folder, &document, link) {
                broken.push(format!("{} links to {link}, {problem}", document.display()));
            }
        }
    }
    if !broken.is_empty() {
        bail!("broken links:\n{}", broken.join("\n"));
    }
    Ok(())
}

pub(crate) fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))
}

fn problem(folder: &Path, document: &Path, link: &str) -> Option<&'static str> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() {
        Some(document.to_owned())
    } else {
        inside(&document.parent().unwrap_or(document).join(path))
    };
    let Some(target) = target.map(|target| folder.join(target)) else {
        return Some("which is outside of the folder");
    };
    if !target.exists() {
        return Some("which does not exist");
    }
    let anchor = anchor?;
    let known = fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor));
    (!known).then_some("which has no such heading")
}

/// The path without `..`; `None` if it leads out of the folder.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir if clean.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_with_the_comment_directly_before_them() {
        let text = "<!-- far -->\ntext\n```console\n$ one\nsaid\n```\n\n<!-- run:\n  two\n  three -->\n\n- item\n\n  <!-- near -->\n  ```sh\n  four\n    five\n  ```\n```yaml\nnot: closed\n";
        let block = |line, kind, lines: &[&'static str], comment: Option<&str>| Block {
            line,
            kind,
            lines: lines.to_vec(),
            comment: comment.map(str::to_owned),
        };
        let expected = [
            block(4, "console", &["$ one", "said"], None),
            block(16, "sh", &["four", "  five"], Some("near")),
            block(20, "yaml", &["not: closed"], None),
        ];
        assert_eq!(blocks(text), expected);
        let text = "<!-- run:\n  two\n  three -->\n\n```sh\n```\n";
        assert_eq!(blocks(text), [block(6, "sh", &[], Some("run:\ntwo\nthree"))]);
    }

    #[test]
    fn links_are_read_only_from_prose() {
        let text = "See [a](a.md), ![b](b.svg) and [c](https://c.example/d.md).\n\n```console\n$ [d](d.md)\n```\n[e]: e.md#part\n";
        assert_eq!(relative_links(text), ["a.md", "b.svg", "e.md#part"]);
        assert_eq!(relative_links("[a](a.md"), [""; 0], "not closed");
    }

    #[test]
    fn headings_have_the_anchors_of_forges() {
        let text = "# What it does *not* promise\n## `vendor_tools`\n## Twice\n## Twice\n#no heading\n```\n# code\n```\n";
        let expected = ["twice", "twice-1", "vendor_tools", "what-it-does-not-promise"];
        assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn links_out_of_the_folder_and_to_missing_targets_are_found() {
        let folder = std::env::temp_dir().join(format!("xtask-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("docs")).unwrap();
        let text = "# One\n[a](docs/b.md#two) [c](docs/c.md) [d](../d.md) [e](#one) [f](#two) [g](docs)\n";
        fs::write(folder.join("a.md"), text).unwrap();
        fs::write(folder.join("docs/b.md"), "## Two\n[a](../a.md#one) [b](../docs/../../a.md)\n").unwrap();
        let error = check_links(&folder).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        let expected = "broken links:\na.md links to docs/c.md, which does not exist\n\
                        a.md links to ../d.md, which is outside of the folder\na.md links to #two, which has no such heading\n\
                        docs/b.md links to ../docs/../../a.md, which is outside of the folder";
        assert_eq!(error, expected);
    }
}
