//! The current folder: configuration, policy, image.

use sandbox::ImageSource;

use crate::args::ImageArgs;
use crate::config::{Environment, LoginEntry};
use crate::failure::Failure;
use crate::settings::{Project, login_of};

use super::report::Check;

/// The checks of the project that need no engine.
pub(super) fn checks(project: &Result<Project, Failure>, environment: &Environment) -> Vec<Check> {
    match project {
        Ok(project) => [configuration(project), credentials(project, environment), policy(project)]
            .into_iter()
            .chain(outer(project))
            .chain([image(project)])
            .collect(),
        Err(failure) => vec![Check::failed("configuration", failure)],
    }
}

fn configuration(project: &Project) -> Check {
    match project.config_path() {
        Some(path) => Check::ok("configuration", path.display().to_string()),
        None => Check::ok("configuration", "none; the defaults apply"),
    }
}

fn credentials(project: &Project, environment: &Environment) -> Check {
    let credentials = project.credentials();
    let logins = credentials.logins.iter().map(LoginEntry::name);
    let variables = credentials.variables().map(|(variable, _)| variable.to_owned());
    let variables: Vec<String> = variables.chain(logins).collect();
    if variables.is_empty() {
        let agent = project.agent();
        let set = agent.credentials().map(|(variable, _)| variable);
        let set: Vec<&str> = set.filter(|variable| environment.text(variable).is_some()).collect();
        if !set.is_empty() {
            return Check::ok(
                "credentials",
                format!("{} from the environment, masked for {agent}", set.join(", ")),
            );
        }
        let login = login_of(&agent).map(|login| format!(", or `logins: {{{}: {{}}}}`", login.name()));
        let login = login.unwrap_or_default();
        return Check::ok(
            "credentials",
            format!(
                "none; for {agent}, export {}{login}",
                agent.credentials().map(|(variable, _)| variable).collect::<Vec<_>>().join(" or ")
            ),
        );
    }
    match credentials.with_placeholders().prepare(environment) {
        Ok(_) => Check::ok("credentials", format!("masked: {}", variables.join(", "))),
        Err(problems) => Check::fail(
            "credentials",
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            "`sandbox config check` shows their places",
        ),
    }
}

fn policy(project: &Project) -> Check {
    let path = project.allowlist_path();
    match project.read_allowlist(&path) {
        Err(failure) => Check::failed("allowlist", &failure),
        Ok(None) => Check::ok(
            "allowlist",
            format!(
                "none: `sandbox agent` reaches only its agent's API, `sandbox run` nothing; allow more in {}",
                path.display()
            ),
        ),
        Ok(Some(policy)) => match policy.lint().len() {
            0 => Check::ok("allowlist", path.display().to_string()),
            count => Check::warn(
                "allowlist",
                format!("{}: {count} warning{}", path.display(), if count == 1 { "" } else { "s" }),
                "`sandbox allowlist lint` shows them",
            ),
        },
    }
}

/// The policies outside of the project's; `None` if there are none.
fn outer(project: &Project) -> Option<Check> {
    match project.outer() {
        Err(failure) => Some(Check::failed("policies", &failure)),
        Ok(outer) if outer.is_empty() => None,
        Ok(outer) => {
            let documents: Vec<String> = outer.into_iter().map(|outer| outer.document).collect();
            Some(Check::ok("policies", format!("{} limit every project", documents.join(" and "))))
        }
    }
}

fn image(project: &Project) -> Check {
    let args = ImageArgs { image: None, dockerfile: None, context: None, max_image_age: None };
    match project.image(&args) {
        Ok(ImageSource::Existing(name)) => Check::ok("image", name),
        Ok(_) if project.uses_default_image(&args) => Check::ok("image", "built from the default Dockerfile"),
        Ok(ImageSource::Build { context_files, .. }) => Check::ok(
            "image",
            format!("built from a Dockerfile and {} files next to it", context_files.len()),
        ),
        Err(failure) => {
            Check::warn("image", failure.to_string(), failure.hint().unwrap_or("fix the reported error"))
        }
    }
}
