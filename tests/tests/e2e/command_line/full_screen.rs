//! Programs that use the whole terminal, with the picture that their user sees.

use std::fs;

use e2e_tests::setting::Setting;

use super::project::{Project, assert_nothing_left, config};
use super::terminal::wait_until_nothing_left;
use super::tmux::Tmux;

const VIM: [&str; 5] = ["vim.tiny", "-N", "-u", "NONE", "text"];

fn project(prefix: &str) -> Project {
    let project = Project::with_prefix(prefix);
    let image = &Setting::of_this_run().clients_image;
    project.write(".sandbox/sandbox.yaml", &config(prefix, image));
    // The terminal is not filled by the build of the image.
    assert_eq!(project.run("true").code, Some(0));
    project
}

fn start(project: &Project, program: &[&str]) -> Tmux {
    let arguments = [&["run", "-t", "--workspace", "direct", "--"], program].concat();
    Tmux::start(&project.sandbox(&arguments), 80, 24)
}

#[tokio::test(flavor = "multi_thread")]
async fn full_screen_programs_draw_and_leave_the_terminal_as_it_was() {
    let prefix = "e2e-cli-screen";
    let project = project(prefix);

    project.write("text", "one\ntwo\n");
    let vim = start(&project, &VIM);
    vim.shows("one\ntwo\n~\n~\n");
    vim.types(&["G", "o", "three", "Escape"]);
    vim.shows("one\ntwo\nthree\n~\n");
    vim.resize(60, 20);
    vim.types_until(":set columns?\n", "columns=60");
    vim.types(&[":wq", "Enter"]);
    vim.ends(0);
    assert_eq!(fs::read_to_string(project.path().join("text")).expect("a file"), "one\ntwo\nthree\n");

    let numbers: Vec<String> = (1..=500).map(|number| number.to_string()).collect();
    project.write("numbers", &(numbers.join("\n") + "\n"));
    let less = start(&project, &["less", "numbers"]);
    less.shows("1\n2\n3\n");
    less.types(&["G"]);
    less.shows("499\n500\n(END)");
    less.types(&["g", "/^250", "Enter"]);
    less.shows("250\n251\n252\n");
    less.types(&["q"]);
    less.ends(0);

    let htop = start(&project, &["htop"]);
    htop.shows_all(&["PID", "Load average", "F10Quit"]);
    htop.types(&["q"]);
    htop.ends(0);

    let inner = start(&project, &["tmux", "new-session", "-s", "inner"]);
    inner.shows("[inner]");
    inner.types(&["echo in-$((1 + 1))", "Enter"]);
    inner.shows("in-2\n");
    inner.types(&["C-b", "d"]);
    inner.ends(0);
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn job_is_stopped_by_ctrl_z_and_continued() {
    let prefix = "e2e-cli-jobs";
    let project = project(prefix);
    let shell = start(&project, &["env", "PS1=$ ", "bash", "--norc"]);
    shell.shows("\n$\n");
    shell.types(&["sh -c 'echo begun-$((1 + 1)); exec sleep 1000'", "Enter"]);
    shell.shows("begun-2");
    shell.types(&["C-z"]);
    shell.shows("Stopped");
    shell.types(&["clear", "Enter"]);
    shell.shows_only("$\n");
    shell.types(&["fg", "Enter"]);
    // The shell prints the command before the job has the terminal.
    shell.shows("exec sleep 1000");
    shell.types_until("C-c", "^C\n$\n");
    shell.types(&["clear; jobs; echo none-$((1 + 1))", "Enter"]);
    let screen = shell.shows("none-2\n");
    assert!(!screen.contains("sleep"), "no job is left: {screen}");
    shell.types(&["exit 3", "Enter"]);
    shell.shows("code=3\nrestored\n");
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attached_terminal_gets_the_whole_picture() {
    let prefix = "e2e-cli-picture";
    let project = project(prefix);
    project.write("text", "one\ntwo\n");
    let vim = start(&project, &VIM);
    vim.shows("one\ntwo\n~\n");
    vim.types(&["o", "half", "Escape", "C-p", "C-q"]);
    assert!(vim.ends(0).contains("continues: `sandbox attach"));
    // A terminal of another size.
    let again = Tmux::start(&project.sandbox(&["attach"]), 60, 20);
    again.shows("one\nhalf\ntwo\n~\n");
    again.types(&[":q!", "Enter"]);
    again.ends(0);
    wait_until_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_answers_no_query_of_a_task_and_keeps_its_clipboard() {
    /// Queries that tmux answers, and the clipboard.
    const HOSTILE: &str = r"\033[c\033[>c\033[5n\033[6n\033[18t\033[>q\033[?25$p\033P$qm\033\\\033]10;?\007\033]52;c;ZXZpbA==\007";
    let project = project("e2e-cli-answers");
    // The key comes after all answers: tmux has read what the program printed before.
    let script = format!(
        "stty raw -echo; printf '{HOSTILE}'; printf printed; IFS= read -r -d k answers; stty sane; printf '\\nanswers=%q.\\n' \"$answers\""
    );
    for raw in [false, true] {
        let flags: &[&str] = if raw { &["--raw-terminal"] } else { &[] };
        let run =
            ["run", "-t", "--", "bash", "-c", "until [ -e go ]; do sleep 0.1; done; eval \"$0\"", &script];
        let tmux = Tmux::start(&project.sandbox(&[flags, &run].concat()), 80, 24);
        tmux.ask(&["set-option", "-s", "set-clipboard", "on"]);
        project.write("go", "");
        tmux.shows("printed");
        tmux.types(&["k"]);
        let screen = tmux.shows("restored");
        assert_eq!(screen.contains("answers=''."), !raw, "{screen}");
        assert_eq!(tmux.ask(&["list-buffers"]).contains("evil"), raw, "{screen}");
        fs::remove_file(project.path().join("go")).expect("a file");
    }
}
