//! The search for real tokens of a login, while its agent runs and afterwards.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use e2e_tests::assert_held;
use rustix::process::{Pid, Signal, kill_process};

use super::super::search::{Needles, Places};
use super::machine::{Machine, TOKEN, command, until};
use crate::command_line::project::assert_nothing_left;
use crate::command_line::stand_in::StandIn;

#[tokio::test(flavor = "multi_thread")]
async fn real_tokens_are_in_no_task_and_the_refresh_token_not_even_in_the_proxy() {
    let (host, prefix) = ("login-search.test", "e2e-search-login");
    // It is refreshed when the run starts.
    let machine = Machine::new(host, Duration::ZERO);
    let project = machine.project_with_prefix(prefix);
    let agent = StandIn::new(&format!(
        "{TOKEN}; export TOKEN
env > /root/env; cp /root/.claude/.credentials.json /workspace/copy
curl -sS --fail -H \"Authorization: Bearer $TOKEN\" https://{host}/headers > /root/.claude/headers || exit 9
touch /root/.claude/ready; exec -a \"$TOKEN\" sleep 600"
    ));
    let begun = SystemTime::now();
    let stderr = project.path().join("stderr");
    let mut child = command(&project, &agent)
        .args(["--network-log-live", "-vv"])
        .stdout(Stdio::null())
        .stderr(File::create(&stderr).expect("a file"))
        .spawn()
        .expect("the sandbox command");
    until("the agent is not ready", || agent.session().join("claude/ready").exists()).await;
    let tokens = machine.vendor.tokens();
    assert_eq!(tokens.len(), 4, "it was refreshed once");
    let mut needles = Needles::new(&tokens);
    let places = Places::of(prefix, begun).await;
    places.search_living(&mut needles).await;
    let (root, state) = (project.path().to_owned(), project.state().to_owned());
    places.search_host(&mut needles, &[&root, &state, agent.session()]).await;
    assert_held!(needles.found().is_empty(), "{:#?}", needles.found());

    // The proxy holds and uses the access token. It has no refresh token.
    let mut needles = Needles::new(&[machine.vendor.issued(1)[0].clone()]);
    needles.look_into_memory("memory of the proxy", places.proxy.pid);
    assert!(!needles.found().is_empty(), "the control: a search of memory finds the token");
    let mut needles = Needles::new(&[0, 1].map(|number| machine.vendor.issued(number)[1].clone()));
    needles.look_into_memory("memory of the proxy", places.proxy.pid);
    assert_held!(needles.found().is_empty(), "{:#?}", needles.found());

    kill_process(Pid::from_child(&child), Signal::TERM).expect("our own child");
    assert_eq!(child.wait().expect("our own child").code(), Some(143));
    assert_nothing_left(prefix).await;
    let mut needles = Needles::new(&tokens);
    places.search_host(&mut needles, &[&root, &state, agent.session()]).await;
    assert_held!(needles.found().is_empty(), "{:#?}", needles.found());
    // The control: a real token that an agent leaves is found.
    fs::write(agent.session().join("claude/ready"), &tokens[3]).expect("a file");
    places.search_host(&mut needles, &[&root, &state, agent.session()]).await;
    assert!(!needles.found().is_empty());
}
