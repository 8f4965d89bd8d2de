//! The pictures in the documents: commands and their output, as they were recorded.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use crate::npm;
use crate::process::{self, command};
use crate::workspace;

/// Waits without output are shortened to this many seconds.
const LONGEST_WAIT: f64 = 1.5;

/// Output within this many seconds is drawn as one frame.
const FRAME: f64 = 0.1;

/// Draws the recording of util-linux's `script` in the files `NAME.out` and `NAME.timing` of the
/// folder `home` as `docs/NAME.svg`; `home` itself is shown as a user's home.
pub(super) fn draw(home: &Path, name: &str) -> Result<()> {
    let out = fs::read(home.join(format!("{name}.out")))?;
    // The first and last lines are from `script` itself.
    let mut rest = out.splitn(2, |byte| *byte == b'\n').nth(1).context("nothing was recorded")?;
    let header = json!({"version": 2, "width": 100, "height": 22});
    let (mut frames, mut at): (Vec<(f64, String)>, f64) = (Vec::new(), 0.0);
    for line in fs::read_to_string(home.join(format!("{name}.timing")))?.lines() {
        let (wait, size) = line.split_once(' ').context("a line of the timing does not have two numbers")?;
        let (now, later) = rest.split_at_checked(size.parse()?).context("less output than stated")?;
        at += wait.parse::<f64>()?.min(LONGEST_WAIT);
        let text = String::from_utf8_lossy(now);
        match frames.last_mut() {
            Some((begun, frame)) if at - *begun < FRAME => frame.push_str(&text),
            _ => frames.push((at, text.into_owned())),
        }
        rest = later;
    }
    let home_text = home.to_string_lossy();
    let frames =
        frames.iter().map(|(at, text)| json!([at, "o", text.replace(&*home_text, "/home/you")]).to_string());
    let lines: Vec<String> = std::iter::once(header.to_string()).chain(frames).collect();
    let cast = home.join(format!("{name}.cast"));
    fs::write(&cast, lines.join("\n") + "\n")?;
    let modules = npm::installed(&["svg-term-cli@2.1.1"], "svg-term")?;
    let mut draw = command("node", [modules.join(".bin/svg-term")]);
    draw.arg("--in").arg(&cast).arg("--out").arg(workspace::root().join(format!("docs/{name}.svg")));
    process::run_quietly(draw.args(["--window", "--no-cursor"]))
}
