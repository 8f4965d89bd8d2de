//! Tests the documents: runs their blocks of commands in a project, and checks their blocks of YAML
//! as its configuration.
//!
//! CONTRIBUTING.md describes the comments before a block that prepare it or exclude it.

use std::fs;

use anyhow::{Context, Result, bail};

use super::programs;
use super::user::User;
use crate::apt::{self, Needed};
use crate::demo::StandIn;
use crate::engine::PrivateEngine;
use crate::markdown::{self, Block};
use crate::process::{self, command};
use crate::report::{say, step};
use crate::task_base_image::CLIENTS;

/// Runs before the commands of every block: creates a new, trusted project.
const PROJECT: &str = include_str!("project.sh");
/// The image that the projects use, and the base of an example Dockerfile: everything that the
/// example installs is already in it.
const IMAGE: &str = "localhost/debian:bookworm";
/// The keys of `network-allowlist.yaml`; a block without them is a `sandbox.yaml`.
const OF_POLICY: [&str; 6] = ["presets:", "deny:", "domains:", "url_prefixes:", "vendor_tools:", "budget:"];

/// Runs every block of every document in the archive.
pub(super) fn test(engine: &PrivateEngine, user: &User, internet: &StandIn) -> Result<()> {
    apt::ensure(&[
        Needed { program: "git", package: "git" },
        Needed { program: "keyctl", package: "keyutils" },
        Needed { program: "ssh-keygen", package: "openssh-client" },
    ])?;
    user.write_upstream(internet)?;
    step(&format!("making {IMAGE}"), || make_image(engine, user))?;
    let (mut run, mut errors) = (0, Vec::new());
    for document in markdown::documents_in(&user.documents())? {
        let text = markdown::read(&user.documents().join(&document))?;
        for block in markdown::blocks(&text) {
            let place = format!("{}:{}", document.display(), block.line);
            match Plan::of(&block).with_context(|| place.clone())? {
                Plan::Run(script) => {
                    run += 1;
                    let ended = step(&place, || user.run(&script));
                    errors.extend(ended.err().map(|error| format!("{place}: {error:#}")));
                }
                Plan::Leave(reason) => say(format!("{place} is not run: {reason}")),
                Plan::Ignore => {}
            }
        }
    }
    if !errors.is_empty() {
        bail!("{} of {run} blocks of the documents failed:\n{}", errors.len(), errors.join("\n"));
    }
    say(format!("all {run} blocks of the documents passed"));
    Ok(())
}

fn make_image(engine: &PrivateEngine, user: &User) -> Result<()> {
    let folder = user.home().join("image");
    programs::write(&folder.join("bin"))?;
    fs::write(folder.join("sources.list"), "")?;
    // Without sources, apt-get finds everything up to date.
    let text = format!(
        "FROM {}\nCOPY sources.list /etc/apt/sources.list\nCOPY bin /usr/local/bin\n",
        CLIENTS.reference()
    );
    fs::write(folder.join("Dockerfile"), text)?;
    process::run_quietly(command(engine.client(), ["build", "--quiet", "--tag", IMAGE]).arg(&folder))
}

/// How a block is tested.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// Run as this bash script.
    Run(String),
    /// Not run, for this reason.
    Leave(String),
    /// Neither commands nor configuration.
    Ignore,
}

impl Plan {
    fn of(block: &Block<'_>) -> Result<Self> {
        let commands = match block.kind {
            "console" => typed(block)?,
            "sh" | "bash" | "shell" => vec![(block.line, block.lines.join("\n"))],
            "yaml" => vec![(block.line, checked(block))],
            _ => return Ok(Self::Ignore),
        };
        let comment = block.comment.as_deref().unwrap_or_default();
        if let Some(reason) = comment.strip_prefix("not run:") {
            if reason.trim().is_empty() {
                bail!("`not run:` needs a reason");
            }
            return Ok(Self::Leave(reason.trim().to_owned()));
        }
        let (code, preparation) = expected(comment)?;
        let last = commands.len().saturating_sub(1);
        let lines = commands.iter().enumerate().map(|(index, (line, text))| {
            let first = text.lines().next().unwrap_or_default().replace('\'', r"'\''");
            let run = if index == last && code != 0 { ended_with(code, text) } else { text.clone() };
            format!("AT='line {line}: {first}'\n{run}\n")
        });
        let script = format!("{PROJECT}\n{preparation}\n{}", lines.collect::<String>());
        Ok(Self::Run(script))
    }
}

fn ended_with(code: u8, command: &str) -> String {
    format!("trap - ERR\nset +e\n{command}\ncode=$?\nended_with {code}")
}

/// The expected exit code of a block's last command, and the commands to run first, from a comment
/// `run: COMMANDS` or `run, ends with CODE: COMMANDS`.
fn expected(comment: &str) -> Result<(u8, &str)> {
    let Some(rest) = comment.strip_prefix("run") else {
        return Ok((0, ""));
    };
    let (condition, preparation) = rest.split_once(':').context("`run` needs a colon")?;
    if condition.is_empty() {
        return Ok((0, preparation));
    }
    let code = condition.strip_prefix(", ends with ").and_then(|code| code.parse().ok());
    code.map(|code| (code, preparation))
        .with_context(|| format!("`run{condition}` must be `run, ends with CODE`"))
}

/// The commands of a session, with the numbers of their lines: each follows a prompt, with its
/// here-document and the lines that a `\` continues. The lines between them are their output.
fn typed(block: &Block<'_>) -> Result<Vec<(usize, String)>> {
    let mut commands = Vec::new();
    let mut lines = block.lines.iter().zip(block.line..);
    while let Some((line, number)) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else {
            continue;
        };
        let mut text = command.to_owned();
        let end = end_of_document(command);
        let mut line = command;
        while if let Some(end) = end { line != end } else { line.ends_with('\\') } {
            let Some((next, _)) = lines.next() else {
                bail!("the command in line {number} has no end");
            };
            line = next;
            text.push('\n');
            text.push_str(line);
        }
        commands.push((number, text));
    }
    if commands.is_empty() {
        bail!("a block of `console` must have a line that begins with `$ `");
    }
    Ok(commands)
}

/// The delimiter of a command's here-document.
fn end_of_document(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once("<<")?;
    let word = rest.trim_start_matches(['-', ' ', '\'', '"']);
    let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
    word.get(..end).filter(|word| !word.is_empty())
}

/// A command that checks a block of YAML as the configuration of a project.
fn checked(block: &Block<'_>) -> String {
    let of_policy = block.lines.iter().any(|line| OF_POLICY.iter().any(|key| line.starts_with(key)));
    let file = if of_policy { "network-allowlist.yaml" } else { "sandbox.yaml" };
    let text = block.lines.join("\n");
    format!("cat > .sandbox/{file} <<'END OF THE BLOCK'\n{text}\nEND OF THE BLOCK\nsandbox config check")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan> {
        Plan::of(markdown::blocks(text).first().unwrap())
    }

    fn script(text: &str) -> String {
        match plan(text).unwrap() {
            Plan::Run(script) => script.strip_prefix(PROJECT).unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn error(text: &str) -> String {
        format!("{:#}", plan(text).unwrap_err())
    }

    #[test]
    fn commands_of_a_session_are_read_without_their_output() {
        let text = "```console\n$ one 'a'\nsaid\n$ cat > x <<'EOF'\n$ text\nEOF\n$ two \\\n  more\n```\n";
        let expected = "\n\nAT='line 2: one '\\''a'\\'''\none 'a'\nAT='line 4: cat > x <<'\\''EOF'\\'''\ncat > x <<'EOF'\n$ text\nEOF\n\
                        AT='line 7: two \\'\ntwo \\\n  more\n";
        assert_eq!(script(text), expected);
        assert_eq!(
            script("```sh\nfor x in a b\ndo\n  $x\ndone\n```\n"),
            "\n\nAT='line 2: for x in a b'\nfor x in a b\ndo\n  $x\ndone\n"
        );
    }

    #[test]
    fn comments_prepare_exclude_and_name_the_exit_code_of_a_block() {
        let block = "```console\n$ one\n$ two\n```\n";
        let of = |comment: &str| format!("<!-- {comment} -->\n{block}");
        assert!(script(&of("run: before\nthat")).starts_with("\n before\nthat\nAT='line 4: one'\none\n"));
        assert!(script(&of("any other")).starts_with("\n\nAT="));
        let ended = script(&of("run, ends with 3: x"));
        assert!(
            ended.ends_with("\none\nAT='line 4: two'\ntrap - ERR\nset +e\ntwo\ncode=$?\nended_with 3\n"),
            "{ended}"
        );
        assert_eq!(plan(&of("not run: needs a forge")).unwrap(), Plan::Leave("needs a forge".to_owned()));
        for (comment, expected) in [
            ("not run:", "needs a reason"),
            ("run, ends with no: x", "must be `run, ends with CODE`"),
            ("run it", "needs a colon"),
        ] {
            assert!(error(&of(comment)).contains(expected), "{comment}");
        }
    }

    #[test]
    fn console_block_without_a_complete_command_is_an_error() {
        for (text, expected) in [
            ("```console\nsandbox run\n```\n", "begins with `$ `"),
            ("```console\n$ cat <<EOF\ntext\n```\n", "in line 2 has no end"),
        ] {
            assert!(error(text).contains(expected), "{text}");
        }
        assert_eq!(plan("```text\nany\n```\n").unwrap(), Plan::Ignore);
    }

    #[test]
    fn yaml_is_checked_as_the_file_of_its_keys() {
        for (text, file) in
            [("image: x", "sandbox.yaml"), ("# more\nbudget:\n  sent: 1m", "network-allowlist.yaml")]
        {
            let script = script(&format!("```yaml\n{text}\n```\n"));
            let expected = format!(
                "cat > .sandbox/{file} <<'END OF THE BLOCK'\n{text}\nEND OF THE BLOCK\nsandbox config check\n"
            );
            assert!(script.ends_with(&expected), "{script}");
        }
    }
}
