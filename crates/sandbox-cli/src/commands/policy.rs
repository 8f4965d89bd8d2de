//! `policy …` and `stop`: control the run of another process over its socket.

use std::path::Path;
use std::time::Duration;

use allowlist::Allowlist;
use serde::Serialize;

use crate::args::{Output, PolicyCommand, StopArgs};
use crate::control::{Report, Request, Runs, shield_of};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::table::aligned;

/// Runs the subcommand on a run whose socket is in the state folder `state`; `read` reads a policy,
/// possibly from a file of this project.
pub(crate) async fn policy(
    command: PolicyCommand,
    state: &Path,
    read: impl FnOnce(&Path) -> Result<Allowlist, Failure>,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let (run, request) = match command {
        PolicyCommand::Show { run, output } => {
            let runs = Runs::find(state, printer).await?;
            show(runs.one(run.run.as_deref())?, output, printer);
            return Ok(ExitStatus::Success);
        }
        // An invalid file is reported before any request is sent.
        PolicyCommand::Set { file, run } => (run, Request::SetPolicy { policy: read(&file)? }),
        PolicyCommand::Down { time, run } => (run, Request::Down { for_ms: milliseconds(time) }),
        PolicyCommand::Up { run } => (run, Request::Up {}),
        PolicyCommand::Quarantine { run } => (run, Request::Quarantine {}),
    };
    let runs = Runs::find(state, printer).await?;
    let now = runs.ask(runs.one(run.run.as_deref())?, &request).await?;
    printer.line(format_args!("{}  {}", now.run, shield_of(&now)));
    Ok(ExitStatus::Success)
}

/// Stops one run, or all, and waits for the end of their programs.
pub(crate) async fn stop(args: &StopArgs, state: &Path, printer: Printer) -> Result<ExitStatus, Failure> {
    let runs = Runs::find(state, printer).await?;
    let stopped =
        if args.all { runs.all().iter().collect() } else { vec![runs.one(args.run.run.as_deref())?] };
    let request = Request::Stop {};
    let asked = stopped.iter().map(|run| runs.ask(run, &request));
    let mut failed = None;
    for (run, asked) in stopped.iter().zip(futures_util::future::join_all(asked).await) {
        match asked {
            Ok(_) => drop(printer.line(format_args!("{}  stopped", run.run))),
            Err(failure) => failed = Some(failure),
        }
    }
    failed.map_or(Ok(ExitStatus::Success), Err)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The document of `show --output json`; `version` rises when a field changes its meaning or is
/// removed.
#[derive(Debug, Serialize)]
struct ShowReport<'a> {
    version: u32,
    #[serde(flatten)]
    run: &'a Report,
}

fn show(run: &Report, output: Output, printer: Printer) {
    match output {
        // Serializing texts and numbers cannot fail.
        Output::Json => {
            let report = ShowReport { version: 1, run };
            printer.line(serde_json::to_string(&report).unwrap_or_default());
        }
        Output::Text => {
            for line in text(run) {
                if !printer.line(printer.sanitize(&line)) {
                    break;
                }
            }
        }
    }
}

fn text(run: &Report) -> Vec<String> {
    let policy = match &run.policy {
        None => "none: the run has no network sandbox".to_owned(),
        Some(policy) if policy.is_empty() => "nothing is allowed".to_owned(),
        Some(policy) => match policy.rules().len() + policy.denied().len() {
            1 => "1 rule".to_owned(),
            rules => format!("{rules} rules"),
        },
    };
    let outer = run.policy.iter().flat_map(Allowlist::outer);
    let outer = outer.map(|outer| ("Within", outer.document.clone()));
    let head = [
        ("Run", format!("{}, {}, pid {}", run.run, run.program, run.pid)),
        ("Project", run.project.clone()),
        ("Shield", shield_of(run)),
        ("Policy", policy),
    ];
    let head = head.into_iter().chain(outer).map(|(name, value)| vec![name.to_owned(), value]);
    let mut lines = aligned(&head.collect::<Vec<_>>());
    // In the format that `set` reads, which keeps outer policies. Serializing texts and numbers
    // cannot fail.
    let document = run.policy.clone().map(Allowlist::alone).filter(|policy| *policy != Allowlist::default());
    let document = document.and_then(|policy| serde_json::to_string_pretty(&policy).ok());
    lines.extend(document.iter().flat_map(|document| document.lines()).map(str::to_owned));
    lines
}

#[cfg(test)]
mod tests {
    use sandbox::network_event::PolicyState;

    use super::*;

    fn report() -> Report {
        let policy =
            "domains: [a.example]\nurl_prefixes: [{host: b.example, path: /v1/*, methods: [GET, PUT]}]";
        Report {
            run: "0123456789abcdef".to_owned(),
            pid: 7,
            project: "/srv/p".to_owned(),
            program: "make".to_owned(),
            shield: Some(PolicyState::Down),
            until_ms: Some(1_770_122_696_999),
            policy: Some(Allowlist::from_yaml(policy, "p").unwrap()),
            policy_source: None,
            started_ms: 1_770_122_000_000,
            screen: None,
            questions: Vec::new(),
            tools: Vec::new(),
            cost: None,
        }
    }

    #[test]
    fn text_and_json_output() {
        insta::assert_snapshot!(text(&report()).join("\n"), @r#"
        Run      0123456789abcdef, make, pid 7
        Project  /srv/p
        Shield   down until 2026-02-03T12:44:56Z
        Policy   2 rules
        {
          "domains": [
            "a.example"
          ],
          "url_prefixes": [
            {
              "host": "b.example",
              "path": "/v1/*",
              "methods": [
                "GET",
                "PUT"
              ]
            }
          ]
        }
        "#);
        let json = serde_json::to_string(&ShowReport { version: 1, run: &report() }).unwrap();
        insta::assert_snapshot!(json, @r#"{"version":1,"run":"0123456789abcdef","pid":7,"project":"/srv/p","program":"make","shield":"down","until_ms":1770122696999,"policy":{"domains":["a.example"],"url_prefixes":[{"host":"b.example","path":"/v1/*","methods":["GET","PUT"]}]},"policy_source":null,"started_ms":1770122000000,"screen":null,"questions":[],"tools":[],"cost":null}"#);
        let bare = Report { shield: None, until_ms: None, policy: None, ..report() };
        assert_eq!(text(&bare)[2..], ["Shield   -", "Policy   none: the run has no network sandbox"]);
    }
}
