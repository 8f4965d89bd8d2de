//! The process of a container: its program, user and environment.

use std::collections::BTreeMap;
use std::path::Path;

use crate::container::plan::ContainerPlan;
use sandbox_podman::{ImageFacts, Inspection, SignalFact};

use super::difference::Differences;

/// Variables that the engine adds to every container.
const ENGINE_VARIABLES: [&str; 5] = ["HOME", "HOSTNAME", "PATH", "TERM", "container"];

pub(super) fn compare(found: &mut Differences, plan: &ContainerPlan, image: &ImageFacts, is: &Inspection) {
    found.compare("image", image.id.as_str(), is.image.as_str());
    let user = plan.isolation.user.as_deref().unwrap_or(&image.user);
    found.compare("user", user, is.config.user.as_str());
    let of_image = if image.working_dir.is_empty() { "/" } else { &image.working_dir };
    let working_dir = plan.working_dir.as_deref().unwrap_or(of_image);
    found.compare("working directory", Path::new(working_dir), Path::new(&is.config.working_dir));
    found.compare("terminal", plan.terminal.is_some(), is.config.tty);
    found.compare("stdin", plan.stdin, is.config.open_stdin);
    for (name, value) in plan.labels.to_map() {
        found.compare(
            &format!("label {name}"),
            Some(value.as_str()),
            is.config.labels.get(&name).map(String::as_str),
        );
    }
    for (name, value) in &plan.detachment.annotations {
        let is = is.config.annotations.get(name);
        found.compare(&format!("annotation {name}"), Some(value), is);
    }
    found.compare("host name", plan.isolation.hostname.as_str(), is.config.hostname.as_str());
    let signal = plan.isolation.stop_signal;
    let right = match &is.config.stop_signal {
        SignalFact::Number(number) => *number == signal.number(),
        SignalFact::Name(name) => name.trim_start_matches("SIG") == signal.name(),
    };
    found
        .require(right, || format!("stop signal: planned {}, is {:?}", signal.name(), is.config.stop_signal));
    command(found, plan, image, is);
    environment(found, plan, image, is);
}

fn command(found: &mut Differences, plan: &ContainerPlan, image: &ImageFacts, is: &Inspection) {
    found.compare("init", plan.isolation.init, is.host_config.init);
    let whole: Vec<&str> = std::iter::once(&is.path).chain(&is.args).map(String::as_str).collect();
    let own = match whole.as_slice() {
        [_, "--", rest @ ..] if plan.isolation.init => rest,
        whole => whole,
    };
    let planned = command_line(plan, image);
    // A single word is reported as both the path and the argument.
    let own = match own {
        [path, argument] if path == argument && planned.len() == 1 => std::slice::from_ref(path),
        own => own,
    };
    // Arguments may hold values that must not be logged.
    found.require(own == planned, || {
        format!("command line: not the {} words that were planned", planned.len())
    });
}

/// Planned variables are set; unplanned ones come from the image, or are those that the engine
/// always sets.
fn environment(found: &mut Differences, plan: &ContainerPlan, image: &ImageFacts, is: &Inspection) {
    let variables: BTreeMap<&str, &str> =
        is.config.env.iter().map(|variable| variable.split_once('=').unwrap_or((variable, ""))).collect();
    for (name, value) in plan.env.variables() {
        found.require(variables.get(name.as_str()) == Some(&value.as_str()), || {
            format!("environment: `{name}` is not as planned")
        });
    }
    for (name, value) in variables {
        let planned = plan.env.variables().contains_key(name) || ENGINE_VARIABLES.contains(&name);
        let of_image = image.env.get(name).is_some_and(|known| known == value);
        found.require(planned || of_image, || format!("environment: `{name}` was not planned"));
    }
}

/// The program of a plan, with its arguments and without the engine's own PID 1.
pub(in crate::container) fn command_line(plan: &ContainerPlan, image: &ImageFacts) -> Vec<String> {
    let entrypoint = plan.entrypoint.as_ref().unwrap_or(&image.entrypoint);
    // A planned entry point replaces the image's command as well.
    let command =
        if plan.command.is_empty() && plan.entrypoint.is_none() { &image.command } else { &plan.command };
    entrypoint.iter().chain(command).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::{INSPECTIONS, changed, differences, image, isolation, kernel, plan};
    use super::*;
    use crate::spec::Isolation;

    #[test]
    fn values_of_variables_are_hidden() {
        let secret = plan().env.with("TOKEN", "hunter2");
        let plan = ContainerPlan { env: secret, ..plan() };
        let [inspection, _] = INSPECTIONS;
        for env in [json!(["TOKEN=hunter3"]), json!(["OTHER=hunter3"])] {
            let answer = changed(inspection, "/Config/Env", env);
            let text = format!(
                "{plan:?} {answer:?}",
                answer = serde_json::from_value::<Inspection>(answer.clone()).unwrap()
            );
            let found = differences(&plan, answer, &kernel()).join("\n");
            assert!(found.contains("`TOKEN`"), "{found}");
            assert!(!found.contains("hunter") && !text.contains("hunter"), "{found} {text}");
        }
    }

    #[test]
    fn command_of_one_word_that_is_reported_twice_is_accepted() {
        let isolation = Isolation { init: false, ..isolation() };
        let plan = ContainerPlan { command: vec!["/proxy".to_owned()], isolation, ..plan() };
        let [inspection, _] = INSPECTIONS;
        for (args, good) in [(json!(["/proxy"]), true), (json!([]), true), (json!(["/other"]), false)] {
            let mut answer = changed(inspection, "/Args", args);
            *answer.pointer_mut("/Path").unwrap() = json!("/proxy");
            *answer.pointer_mut("/HostConfig/Init").unwrap() = json!(false);
            assert_eq!(differences(&plan, answer, &kernel()).is_empty(), good);
        }
    }

    #[test]
    fn unset_fields_are_those_of_the_image() {
        let image = ImageFacts { entrypoint: vec!["/entry".to_owned()], ..image() };
        for (entrypoint, command, expected) in [
            (None, vec![], vec!["/entry", "/bin/bash"]),
            (None, vec!["ls"], vec!["/entry", "ls"]),
            (Some(vec!["/own"]), vec![], vec!["/own"]),
            (Some(vec!["/own"]), vec!["ls"], vec!["/own", "ls"]),
        ] {
            let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect::<Vec<_>>();
            let plan = ContainerPlan { entrypoint: entrypoint.map(owned), command: owned(command), ..plan() };
            assert_eq!(command_line(&plan, &image), expected);
        }
    }
}
