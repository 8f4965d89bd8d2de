//! The program of `ask` in `sandbox.yaml`, which answers questions of `--ask`.
//!
//! Invariant: text of the task reaches it only as JSON on its stdin; whatever is not a verdict is
//! not an answer.

use std::process::Stdio;
use std::sync::OnceLock;
use std::time::SystemTime;

use rustix::process::{Pid, Signal, kill_process_group};
use sandbox::network::{Question, Verdict};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::config::AskProcess;
use crate::failure::Failure;
use crate::printer::Printer;

/// The name of the program in the network log.
pub(super) const BY: &str = "command";
/// The maximum size of its output, in bytes.
const OUTPUT: usize = 4096;

/// The program of `ask`.
pub(crate) struct AskProgram {
    trusted: Box<dyn Fn() -> Result<AskProcess, Failure> + Send + Sync>,
    /// The folder of the run's project.
    project: String,
    /// Set before the first question.
    run: OnceLock<String>,
    printer: Printer,
}

/// What the program prints.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    verdict: Verdict,
}

/// A process whose group is killed when this is dropped, unless it has ended.
struct Running(Child);

impl AskProgram {
    /// Runs what `trusted` returns, which checks before each start that no task could have written
    /// the program.
    pub(crate) fn new(
        trusted: impl Fn() -> Result<AskProcess, Failure> + Send + Sync + 'static,
        project: String,
        printer: Printer,
    ) -> Self {
        Self { trusted: Box::new(trusted), project, run: OnceLock::new(), printer }
    }

    /// Sets the id of the run.
    pub(super) fn begin(&self, run: &str) {
        let _ = self.run.set(run.to_owned());
    }

    /// Warns that it gave no answer.
    pub(super) fn warn(&self, problem: &str) {
        self.printer.warning(format_args!("the `ask` program gave no answer: {problem}"));
    }

    /// Its verdict; `None` if it leaves the question to others. Dropping the future kills it.
    pub(super) async fn verdict(&self, question: &Question) -> Result<Option<Verdict>, String> {
        let Ok(left) = question.until.duration_since(SystemTime::now()) else { return Ok(None) };
        let input = json!({
            "version": 1,
            "run": self.run.get(),
            "project": self.project,
            "id": question.id,
            "method": question.method,
            "url": question.url,
            "rule": question.rule.to_yaml(),
            "left_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        });
        timeout(left, self.run(&format!("{input}\n")))
            .await
            .unwrap_or_else(|_| Err("it did not end in time".to_owned()))
    }

    async fn run(&self, input: &str) -> Result<Option<Verdict>, String> {
        let (argv, variables) = (self.trusted)().map_err(|failure| failure.to_string())?;
        let (program, arguments) = argv.split_first().ok_or("it has no name")?;
        #[expect(clippy::disallowed_methods, reason = "the user's own program; it drives no engine")]
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A relative path must not lead to a task's file.
        command.current_dir("/").process_group(0);
        let mut running = Running(command.spawn().map_err(|error| error.to_string())?);
        let (stdin, stdout) = (running.0.stdin.take(), running.0.stdout.take());
        let write = async {
            // It may answer without reading the question.
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let mut output = Vec::new();
        let read = async {
            let limit = u64::try_from(OUTPUT).unwrap_or(u64::MAX).saturating_add(1);
            match stdout {
                Some(stdout) => stdout.take(limit).read_to_end(&mut output).await,
                None => Ok(0),
            }
        };
        let ((), read) = tokio::join!(write, read);
        read.map_err(|error| error.to_string())?;
        if output.len() > OUTPUT {
            return Err(format!("it printed more than {OUTPUT} bytes"));
        }
        let status = running.0.wait().await.map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(status.to_string());
        }
        // It may only notify someone who answers elsewhere.
        if output.trim_ascii().is_empty() {
            return Ok(None);
        }
        let reply = serde_json::from_slice(&output);
        reply.map(|Reply { verdict }| Some(verdict)).map_err(|_| "its output is not a verdict".to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs::{self, File};
    use std::io::Read as _;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, UNIX_EPOCH};

    use allowlist::{Rule, UrlRule};
    use rustix::fs::{CWD, Mode, mkfifoat};
    use sandbox::network::Answer;
    use serde_json::Value;

    use super::super::Board;
    use super::*;

    /// The program `script`, with `path` as its first argument.
    fn program(script: &str, path: &Path) -> AskProgram {
        let argv = ["/bin/sh", "-c", script, "sh", path.to_str().unwrap()].map(str::to_owned);
        let variables = vec![("PATH", OsString::from("/usr/bin:/bin")), ("HOME", OsString::from("/home/me"))];
        let trusted = move || Ok((argv.clone().into(), variables.clone()));
        let program = AskProgram::new(trusted, "/srv/p".to_owned(), Printer::new(0, true));
        program.begin("3fa2c1d4");
        program
    }

    fn question(id: u64, url: &str) -> Question {
        let rule = Rule::Url(UrlRule::new("a.example", "/x", ["GET"]).unwrap());
        let until = SystemTime::now() + Duration::from_hours(1);
        Question::new(id, "GET".to_owned(), url.to_owned(), rule, UNIX_EPOCH, until)
    }

    async fn verdict(script: &str) -> Result<Option<Verdict>, String> {
        program(script, Path::new("/")).verdict(&question(1, "https://a.example/x")).await
    }

    #[tokio::test]
    async fn only_a_verdict_of_a_successful_program_is_an_answer() {
        for (script, expected) in [
            (r#"echo '{"verdict": "once"}'"#, Some(Verdict::Once)),
            (r#"cat > /dev/null; printf '{"verdict":"run"}'"#, Some(Verdict::Run)),
            (r#"echo '{"verdict": "always"}'; echo noise >&2"#, Some(Verdict::Always)),
            (r#"pwd | grep -qx / && echo '{"verdict": "no"}'"#, Some(Verdict::No)),
            (r#"printf '%4000s'; echo '{"verdict": "once"}'"#, Some(Verdict::Once)),
            (r#"printf '%5000s'; echo '{"verdict": "once"}'"#, None),
            (r#"echo '{"verdict": "once"}'; exit 1"#, None),
            (r#"echo '{"verdict": "once"}'; kill -9 $$"#, None),
            (r#"echo '{"verdict": "once"}' >&2"#, None),
            (r#"echo '{"verdict": "once"}{"verdict": "no"}'"#, None),
            (r#"echo '{"verdict": "no", "verdict": "once"}'"#, None),
            (r#"echo '{"verdict": "once", "rule": 1}'"#, None),
            (r#"echo '{"verdict": "yes"}'"#, None),
            (r#"echo '{"verdict": true}'"#, None),
            ("echo once", None),
            ("echo", None),
            ("yes", None),
            ("", None),
        ] {
            assert_eq!(verdict(script).await.ok().flatten(), expected, "{script}");
        }
        let missing = || Ok((vec!["/no/such/program".to_owned()], Vec::new()));
        let missing = AskProgram::new(missing, "/".to_owned(), Printer::new(0, true));
        missing.verdict(&question(1, "https://a.example/x")).await.unwrap_err();
    }

    #[tokio::test]
    async fn hostile_url_is_data_and_the_environment_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let script = r#"cat > "$1/question"; env > "$1/env"; echo $# > "$1/arguments""#;
        let url = "https://a.example/$(touch${IFS}/tmp/x);`id`?\"},\"verdict\":\"once\\";
        assert_eq!(program(script, folder.path()).verdict(&question(7, url)).await, Ok(None));
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("question").ends_with('\n') && read("question").lines().count() == 1);
        let mut asked: Value = serde_json::from_str(&read("question")).unwrap();
        let left = asked.as_object_mut().unwrap().remove("left_ms").unwrap().as_u64().unwrap();
        assert!((1..=3_600_000).contains(&left), "{left}");
        let expected = json!({
            "version": 1, "run": "3fa2c1d4", "project": "/srv/p", "id": 7, "method": "GET", "url": url,
            "rule": "{host: a.example, path: /x, methods: [GET]}"
        });
        assert_eq!(asked, expected);
        assert_eq!(read("arguments"), "1\n");
        assert!(read("env").contains("HOME=/home/me\n") && !read("env").contains("CARGO"), "{}", read("env"));
    }

    #[tokio::test]
    async fn question_whose_time_is_over_is_not_asked() {
        let mut asked = question(1, "https://a.example/x");
        let program = program(r#"echo '{"verdict": "once"}'"#, Path::new("/"));
        assert_eq!(program.verdict(&asked).await, Ok(Some(Verdict::Once)), "the control");
        asked.until = UNIX_EPOCH;
        assert_eq!(program.verdict(&asked).await, Ok(None));
    }

    /// A named pipe, and its path.
    fn pipe() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        (folder, path)
    }

    /// The output of a program that printed `started` to `pipe`. It ends when nothing has the pipe
    /// open for writing.
    async fn started(pipe: PathBuf) -> File {
        let opened = tokio::task::spawn_blocking(move || {
            let mut output = File::open(pipe).unwrap();
            output.read_exact(&mut [0; 8]).unwrap();
            output
        });
        opened.await.unwrap()
    }

    #[tokio::test]
    async fn dropped_question_kills_the_program_and_its_children() {
        let (_folder, path) = pipe();
        let program = program(r#"exec > "$1"; echo started; sleep 1000 & wait"#, &path);
        let asking = tokio::spawn(async move { program.verdict(&question(1, "https://a.example/x")).await });
        let mut output = started(path).await;
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[tokio::test]
    async fn program_answers_the_board_or_leaves_it_to_others() {
        let kept = std::sync::Arc::new(std::sync::Mutex::new(0));
        let keeper = std::sync::Arc::clone(&kept);
        let always = program(r#"echo '{"verdict": "always"}'"#, Path::new("/"));
        let board = Board::new(move |_| *keeper.lock().unwrap() += 1, Some(always));
        let answer = board.ask(question(1, "https://a.example/x")).await;
        assert_eq!((answer, *kept.lock().unwrap()), (Answer::new(Verdict::Always, BY), 1));
        let board = Board::new(|_| {}, Some(program("exit 1", Path::new("/"))));
        let asking = tokio::spawn(board.clone().ask(question(1, "https://a.example/x")));
        // The terminal asks once the program has failed.
        board.is_asked().await;
        board.answer(1, Verdict::Once, "test").unwrap();
        assert_eq!(asking.await.unwrap(), Answer::new(Verdict::Once, "test"));
    }

    #[tokio::test]
    async fn terminal_waits_until_the_time_of_the_program_is_over() {
        let (_folder, path) = pipe();
        let hanging = program(r#"exec > "$1"; echo started; exec sleep 1000"#, &path);
        let board = Board::new(|_| {}, Some(hanging));
        let asking = tokio::spawn(board.clone().ask(question(1, "https://a.example/x")));
        let mut output = started(path).await;
        assert!(board.first().is_none() && board.questions().len() == 1);
        tokio::time::pause();
        tokio::time::advance(Duration::from_hours(1)).await;
        board.is_asked().await;
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0, "it was killed");
        board.answer(1, Verdict::Once, "test").unwrap();
        assert_eq!(asking.await.unwrap(), Answer::new(Verdict::Once, "test"));
    }

    #[tokio::test]
    async fn program_is_checked_before_each_start() {
        let checked = std::sync::atomic::AtomicBool::new(false);
        let answerer = ["/bin/sh", "-c", r#"echo '{"verdict": "once"}'"#].map(str::to_owned);
        let trusted = move || {
            if checked.swap(true, std::sync::atomic::Ordering::Relaxed) {
                return Err(Failure::new("a task can write it"));
            }
            Ok((answerer.to_vec(), Vec::new()))
        };
        let program = AskProgram::new(trusted, "/".to_owned(), Printer::new(0, true));
        let asked = question(1, "https://a.example/x");
        assert_eq!(program.verdict(&asked).await, Ok(Some(Verdict::Once)), "the control");
        assert_eq!(program.verdict(&asked).await, Err("a task can write it".to_owned()));
    }
}
