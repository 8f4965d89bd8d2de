//! `allowlist packages`: read-only rules for the registries of the image's package clients.
//!
//! No registry is hard-coded in this program. The image is queried in a container without a
//! network. Its author can name any host, so the answer is untrusted, and has no effect until the
//! user agrees to the rules.

use std::collections::BTreeSet;

use allowlist::{LeftOut, Rule};
use futures_util::StreamExt as _;
use sandbox::{CommandSpec, Input, Isolation, Network, OutputChunk};

use super::learn::{is_wanted, more_rules, show_change, show_left_out};
use crate::args::{GlobalArgs, Output, PackageClient, PackagesArgs};
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::run_context::{Executed, RunContext};
use crate::settings::TrustedProject;

const SCRIPT: &str = include_str!("packages.sh");
/// The maximum number of bytes of an answer that are read.
const MOST_BYTES: usize = 16 * 1024;
/// The maximum number of rules from an answer. A project with more has its own registries, and
/// knows their hosts.
const MOST_RULES: usize = 16;

/// Queries the project's image, shows the rules, and writes them if the user agrees.
pub(crate) async fn packages(
    args: &PackagesArgs,
    project: &TrustedProject,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let settings = project.exec(&args.asking(), global, environment, printer)?;
    let clients = if args.clients.is_empty() { PackageClient::ALL.to_vec() } else { args.clients.clone() };
    let mut context = match RunContext::open(&settings, printer).await? {
        Ok(context) => context,
        Err(status) => return Ok(status),
    };
    let executed = ask(&mut context, &clients).await;
    let answer = context.close(executed).await?.value;
    let named = Named::read(&answer, &clients);
    for client in clients.iter().filter(|client| !named.answered.contains(client)) {
        printer.message(format_args!("{client}: not in the image, or without a registry"));
    }
    show_left_out(named.left_out.into_iter(), printer);
    if named.answered.contains(&PackageClient::Cargo) {
        printer
            .message("cargo: an index may name another host for crates; `sandbox allowlist learn` adds it");
    }
    let file = project.extended_policy_file(args.allowlist.as_deref(), environment)?;
    let mut rules = named.rules;
    rules.retain(|rule| !file.policy().rules().iter().any(|known| known.covers(rule)));
    if rules.is_empty() {
        printer.message(format_args!("{} allows all registries that they use", file.label()));
        return Ok(ExitStatus::Success);
    }
    let changed = file.text().with(&[], &rules).map_err(|error| Failure::new(error.to_string()))?;
    show_change(&file, &changed, printer);
    if is_wanted(args.yes, Output::Text, &file, printer)? {
        project.replace_policy(&file, &changed)?.print(printer);
        printer.message(format_args!("{} has {}", file.label(), more_rules(rules.len())));
    }
    Ok(ExitStatus::Success)
}

/// The image's answer, as text.
async fn ask(context: &mut RunContext<'_>, clients: &[PackageClient]) -> Result<Executed<String>, Failure> {
    let names = clients.iter().map(ToString::to_string);
    let command = ["sh", "-c", SCRIPT, "sh"].map(str::to_owned).into_iter().chain(names);
    // Runs as an agent's commands do, so that the clients find the same configuration.
    let spec = CommandSpec::new(&context.settings.key, context.image.clone(), command)
        .network(Network::Disabled)
        .limits(context.settings.limits)
        .isolation(Isolation::agent())
        .network_log_dir(context.folder());
    let command = context.sandbox.create_command(spec)?;
    let mut answer = Vec::new();
    let mut execution = command.execute(Input::Empty);
    let asked = async {
        while let Some(chunk) = execution.next().await {
            if let OutputChunk::Stdout(bytes) = chunk {
                answer.extend(bytes.into_iter().take(MOST_BYTES.saturating_sub(answer.len())));
            }
        }
        execution.await
    };
    let result = tokio::select! {
        result = asked => result?,
        interrupt = context.interrupts.next() => {
            command.stop().await;
            return Ok(Executed { status: ExitStatus::Interrupted(interrupt), is_over: true, value: String::new() });
        }
    };
    if result.timed_out {
        return Err(Failure::new("the image did not report its package registries in time")
            .with_hint("allow the hosts with `sandbox allowlist allow`"));
    }
    let value = String::from_utf8_lossy(&answer).into_owned();
    Ok(Executed { status: ExitStatus::Success, is_over: true, value })
}

/// The parsed answer of an image.
#[derive(Debug, Default)]
struct Named {
    answered: BTreeSet<PackageClient>,
    rules: Vec<Rule>,
    /// Skipped entries, unchanged, and the reasons.
    left_out: Vec<(String, &'static str)>,
}

impl Named {
    fn read(answer: &str, clients: &[PackageClient]) -> Self {
        let mut named = Self::default();
        let lines: BTreeSet<(PackageClient, &str)> = answer
            .lines()
            .filter_map(|line| {
                let (name, url) = line.split_once(' ')?;
                let client = clients.iter().copied().find(|client| client.to_string() == name)?;
                Some((client, url.trim()))
            })
            .collect();
        for (client, url) in lines {
            let rule = Rule::reading_below(url).map_err(LeftOut::as_str);
            let rule = rule.and_then(|rule| {
                if named.rules.len() < MOST_RULES { Ok(rule) } else { Err("too many registries") }
            });
            match rule {
                Ok(rule) if named.rules.contains(&rule) => {}
                Ok(rule) => named.rules.push(rule),
                Err(why) => {
                    named.left_out.push((format!("{client} {url}"), why));
                    continue;
                }
            }
            named.answered.insert(client);
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(answer: &str) -> Vec<String> {
        Named::read(answer, &PackageClient::ALL).rules.iter().map(Rule::to_yaml).collect()
    }

    #[test]
    fn one_rule_is_counted_as_one() {
        assert_eq!([1, 2].map(more_rules), ["1 more rule", "2 more rules"]);
    }

    #[test]
    fn answer_gives_read_only_rules() {
        assert_eq!(
            rules(
                "pip https://a.example/simple\npip https://files.example/\napt http://b.example/debian\napt http://b.example/debian\n"
            ),
            [
                "{host: a.example, path: \"/simple/*\", methods: [GET, HEAD]}",
                "{host: files.example, path: \"/*\", methods: [GET, HEAD]}",
                "{host: b.example, path: \"/debian/*\", methods: [GET, HEAD]}",
            ]
        );
    }

    #[test]
    fn hostile_answer_gives_a_bounded_list_or_nothing() {
        for answer in [
            "",
            "pip",
            "other https://a.example/",
            "pip https://169.254.169.254/\nnpm undefined\ncargo https://u:p@a.example/\napt cdrom:[x]/\u{1b}[2J",
        ] {
            assert_eq!(rules(answer), Vec::<String>::new(), "{answer}");
        }
        let many: Vec<String> = (0..100).map(|at| format!("npm https://h{at}.example/")).collect();
        let named = Named::read(&many.join("\n"), &PackageClient::ALL);
        assert_eq!((named.rules.len(), named.left_out.len()), (MOST_RULES, 100 - MOST_RULES));
        // A client that was not queried is ignored.
        assert_eq!(Named::read("npm https://a.example/", &[PackageClient::Pip]).rules.len(), 0);
    }
}
