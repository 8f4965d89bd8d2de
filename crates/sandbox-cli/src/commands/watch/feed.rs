//! The source of news: the runs, once a second, and the lines of their logs as they arrive.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbox::network::{LogFollower, NetworkLog};
use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Places, project_key};
use crate::control::{Report, Runs};
use crate::run_folder;
use crate::run_record::RunRecord;

/// The interval at which runs are asked for their state.
const ASK: Duration = Duration::from_secs(1);

/// A piece of news.
#[derive(Debug)]
pub(super) enum News {
    /// The reports of the runs that answer, and the problems with the others.
    Runs { reports: Vec<Report>, problems: Vec<String>, now_ms: u64 },
    /// A line of a run's log.
    Line { run: String, line: String },
    /// A run's log has ended, or following it failed.
    Ended { run: String, cost: Option<f64>, problem: Option<String> },
}

/// Sends news until the receiver is gone.
pub(super) async fn feed(places: Places, news: Sender<News>) {
    let mut ticks = interval(ASK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut followed = HashSet::new();
    loop {
        ticks.tick().await;
        let (reports, problems) = match Runs::look(&places.state).await {
            Ok((runs, problems)) => (runs.all().to_vec(), problems),
            Err(failure) => (Vec::new(), vec![failure.to_string()]),
        };
        let fresh: Vec<Report> =
            reports.iter().filter(|report| followed.insert(report.run.clone())).cloned().collect();
        if news.send(News::Runs { reports, problems, now_ms: now_ms() }).await.is_err() {
            return;
        }
        for report in fresh {
            let logs = places.logs(&project_key(Path::new(&report.project)));
            tokio::spawn(follow(report, logs, news.clone()));
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

async fn follow(report: Report, logs: PathBuf, news: Sender<News>) {
    let run = report.run.clone();
    let (cost, problem) = match folder_of(&report, &logs) {
        Err(why) => (None, Some(why)),
        Ok(folder) => {
            let problem = lines(&run, &folder, &news).await.err();
            let record = RunRecord::read(&folder);
            let cost = record.and_then(|record| record.session?.cost).filter(|cost| *cost > 0.0);
            (cost, problem.map(|error| format!("failed to follow its network log: {error}")))
        }
    };
    // Without a receiver, nothing is lost.
    let _ = news.send(News::Ended { run, cost, problem }).await;
}

fn folder_of(report: &Report, logs: &Path) -> Result<PathBuf, String> {
    if report.policy.is_none() {
        return Err("it has no network sandbox and therefore no log".to_owned());
    }
    let ids = run_folder::ids(logs);
    let found = ids.iter().find(|id| run_folder::instance(id) == report.run);
    Ok(logs.join(found.ok_or("its log folder does not exist")?))
}

async fn lines(run: &str, folder: &Path, news: &Sender<News>) -> std::io::Result<()> {
    let folder = folder.to_owned();
    let follower = LogFollower::of_file(&NetworkLog::new(&folder).json_path())?;
    let ended = tokio::task::spawn_blocking(move || run_folder::wait_for_end(&folder));
    let mut follower = follower.until(async move { drop(ended.await) });
    while let Some(line) = follower.next_line().await? {
        if news.send(News::Line { run: run.to_owned(), line }).await.is_err() {
            break;
        }
    }
    Ok(())
}
