//! A day of work in everyday projects: in the tree itself, and in a copy that is applied at the
//! end.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use benchmarks::Sample;
use test_world::layouts::{LAYOUTS, Layout};

use super::apply::MANY;
use super::report::Day;
use super::sandboxed::Library;
use super::worktree::{IDENTITY, Way, WorkTree};

/// Cases that the ten layouts lack: much data and many files.
const LARGE: [Layout; 2] = [
    Layout {
        name: "a build that writes 2 GB",
        before: "true",
        day: "mkdir out; for i in $(seq 20); do head -c 100000000 /dev/urandom > out/$i.o; done",
    },
    Layout { name: "50,000 new files", before: "true", day: MANY },
];

/// Measures each project `rounds` times.
pub(crate) async fn measure(folder: &Path, library: &Library, rounds: u32) -> Result<Vec<Day>> {
    let mut days = Vec::new();
    for layout in LAYOUTS.into_iter().chain(LARGE) {
        let (mut direct, mut copied) = (Sample::default(), Sample::default());
        for round in 0..=rounds {
            let day = async |way| {
                let folder = tempfile::tempdir_in(folder).context("failed to create a folder")?;
                one(folder.path(), library, layout, way)
                    .await
                    .with_context(|| format!("{} ({way:?})", layout.name))
            };
            let (in_tree, in_copy) = (day(Way::Protected).await?, day(Way::Copy).await?);
            // The first round is a warm-up.
            if round > 0 {
                direct.push(in_tree.as_secs_f64() * 1e3);
                copied.push(in_copy.as_secs_f64() * 1e3);
            }
        }
        days.push(Day { name: layout.name, direct_ms: direct.spread(), copy_ms: copied.spread() });
    }
    Ok(days)
}

/// Time to the end of the task, or until its changes are in the tree.
async fn one(folder: &Path, library: &Library, layout: Layout, way: Way) -> Result<Duration> {
    let tree = WorkTree::with_layout(folder, layout)?;
    let mut script = "set -e; cd /workspace; export".to_owned();
    for (name, value) in IDENTITY {
        let _ = write!(script, " {name}={value}");
    }
    let _ = write!(script, "; {}", layout.day);
    let (ran, _) = library.run(&script, Some(tree.mount(way))).await?;
    if way != Way::Copy {
        return Ok(ran);
    }
    let begin = Instant::now();
    tree.apply(1)?;
    tree.discard()?;
    Ok(ran + begin.elapsed())
}
