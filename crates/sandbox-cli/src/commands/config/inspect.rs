//! Reads the files that a run reads, and continues after an error.

use std::path::Path;

use allowlist::Allowlist;

use crate::args::{ConfigCheckArgs, ConfigCommand};
use crate::config::{Advice, Environment, schema};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Project;

use super::report::{Finding, Report};

/// Runs the subcommand.
pub(crate) fn config(
    command: &ConfigCommand,
    project: impl FnOnce() -> Result<Project, Failure>,
    environment: &Environment,
    printer: Printer,
) -> ExitStatus {
    match command {
        ConfigCommand::Check(args) => inspect(args, project(), environment).print(args.output, printer),
        ConfigCommand::Schema => {
            // Serializing texts and numbers cannot fail.
            printer.line(serde_json::to_string_pretty(&schema()).unwrap_or_default());
            ExitStatus::Success
        }
    }
}

fn inspect(args: &ConfigCheckArgs, project: Result<Project, Failure>, environment: &Environment) -> Report {
    let project = match project {
        Ok(project) => project,
        Err(failure) => return Report::new(Finding::failures(&failure)),
    };
    let credentials = project.credentials();
    let mut findings: Vec<Finding> = project.problems(environment).iter().map(Finding::failure).collect();
    findings.extend(credentials.literals().into_iter().map(Finding::advice));
    if project.is_sandboxed() {
        let policy = policy(&project, args.allowlist.as_deref(), &mut findings);
        if let Some(policy) = policy {
            findings.extend(lint(&project, args.allowlist.as_deref()));
            let advice = credentials.advice(environment, &policy);
            findings.extend(advice.into_iter().map(Finding::advice));
        }
    } else {
        findings.push(Finding::warning(
            "`network_sandbox: false`: the task has the host's network access, and nothing is logged",
        ));
        findings.extend(crate::credentials::without_proxy(credentials).map(Finding::warning));
    }
    Report::new(findings).with_credentials(credentials)
}

/// Probable mistakes in a valid policy.
fn lint(project: &Project, named: Option<&Path>) -> Vec<Finding> {
    let warnings = project.policy_file(named).map(|file| file.text().lint());
    let warnings = warnings.ok().and_then(Result::ok).unwrap_or_default();
    let advice = |(location, warning): (_, allowlist::Warning)| {
        Finding::advice(Advice { location, message: warning.message().to_owned() })
    };
    warnings.into_iter().map(advice).collect()
}

fn policy(project: &Project, named: Option<&Path>, findings: &mut Vec<Finding>) -> Option<Allowlist> {
    let path = named.map_or_else(|| project.allowlist_path(), Path::to_owned);
    match project.read_allowlist(&path) {
        Ok(Some(policy)) => Some(policy),
        Ok(None) if named.is_some() => {
            findings.push(Finding::failure(&project.missing_allowlist(&path)));
            None
        }
        Ok(None) => {
            findings.push(Finding::warning(project.no_allowlist(&path)));
            None
        }
        Err(failure) => {
            findings.push(Finding::failure(&failure));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::args::Output;

    const POLICY: &str = "domains: [a.example]\n";

    /// The report on a project with these files, as text, and its exit code.
    fn found(config: &str, policy: Option<&str>, environment: &Environment) -> (String, u8) {
        found_in(config.as_bytes(), policy.map(str::as_bytes), environment)
    }

    fn found_in(config: &[u8], policy: Option<&[u8]>, environment: &Environment) -> (String, u8) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".sandbox")).unwrap();
        fs::write(root.path().join(".sandbox/sandbox.yaml"), config).unwrap();
        if let Some(policy) = policy {
            fs::write(root.path().join(".sandbox/network-allowlist.yaml"), policy).unwrap();
        }
        let printer = Printer::new(0, true);
        let project = Project::load_at(root.path(), None, environment, printer);
        let args = ConfigCheckArgs { allowlist: None, output: Output::Text };
        let report = inspect(&args, project, environment);
        (report.lines(printer).join("\n"), report.print(Output::Json, printer).code())
    }

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let mut all = vec![("HOME", "/no/such/home")];
        all.extend(variables);
        all.into_iter().collect()
    }

    #[test]
    fn overly_broad_rule_is_a_warning_with_its_place() {
        let (text, code) = found("", Some("domains:\n  - a.example\n  - '*'\n"), &environment(&[]));
        let expected = "warning: .sandbox/network-allowlist.yaml:3:5: `*` allows every host";
        assert!(code == 0 && text.contains(expected) && !text.contains("domains["), "{text}");
    }

    #[test]
    fn valid_project_lists_masked_credentials() {
        let config = "
masked_secrets: {TOKEN: {value: !env MINE, scopes: [a.example], headers: [Authorization, X-Key]}}
signing_credentials: {K: {type: aws-sigv4, access_key_id: !env ID, secret_access_key: !env KEY, scopes: [a.example]}}
";
        let environment = environment(&[
            ("MINE", "hunter2-hunter2-hunter2"),
            ("ID", "AKIAIOSFODNN7EXAMPLE"),
            ("KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ]);
        let (text, code) = found(config, Some(POLICY), &environment);
        assert_eq!(code, 0);
        insta::assert_snapshot!(text, @r"
        TOKEN is masked, for a.example in authorization, x-key
        K (ID, KEY) is masked; requests are signed again for a.example
        ok: no errors
        ");
    }

    #[test]
    fn every_error_is_reported_with_its_place_and_without_values() {
        let config = "
env: {A: !env NOT_SET}
masked_secrets:
  LITERAL: {value: hunter2-hunter2-hunter2, scopes: [a.example], headers: [x]}
  MISSING: {scopes: [a.example], headers: [x]}
  ELSEWHERE: {value: !env MINE, scopes: [b.example], headers: [x]}
";
        let (text, code) = found(config, Some(POLICY), &environment(&[("MINE", "hunter2-hunter2-hunter2")]));
        assert_eq!(code, 125);
        insta::assert_snapshot!(text, @r"
        error: .sandbox/sandbox.yaml:2:10: the variable `NOT_SET` is not set where `sandbox` runs: set it (to an empty value if the task does not need it), or remove this entry
        error: .sandbox/sandbox.yaml:5:3: the variable `MISSING` is not set where `sandbox` runs: set it (to an empty value if the task does not need it), or remove this entry
        warning: .sandbox/sandbox.yaml:4:20: this file contains a secret in plain text: keep this file out of version control, or write `!env NAME`, `!command`, `!file` or `!keyring`
        warning: .sandbox/sandbox.yaml:6:3: `ELSEWHERE` is sent to b.example only, which the allowlist does not permit
        LITERAL is masked, for a.example in x
        MISSING is masked, for a.example in x
        ELSEWHERE is masked, for b.example in x
        ");
    }

    #[test]
    fn unreadable_file_and_missing_policy_are_reported() {
        let environment = environment(&[]);
        let (text, code) = found("imge: x", Some(POLICY), &environment);
        assert!(
            text.starts_with("error: .sandbox/sandbox.yaml:1:1: unknown key `imge`: did you mean `image`?"),
            "{text}"
        );
        assert_eq!(code, 125);

        let (text, code) = found("", Some("domains: a.example"), &environment);
        assert!(
            text.starts_with("error: .sandbox/network-allowlist.yaml:1:10: `domains` must be a list"),
            "{text}"
        );
        assert_eq!(code, 125);

        let (text, code) = found("", None, &environment);
        assert!(text.starts_with("warning: .sandbox/network-allowlist.yaml does not exist"), "{text}");
        assert_eq!(code, 0);
    }

    #[test]
    fn missing_prerequisites_of_a_run_are_reported() {
        for (config, expected) in [
            ("dockerfile: missing", ".sandbox/missing`: "),
            ("context: missing", "no image: "),
            ("mounts: ['missing:/data']", ".sandbox/missing` does not exist on the host; create it first"),
            (
                "mounts: ['.:/data/../x']",
                ".sandbox/sandbox.yaml:1:10: `/data/../x` is not an absolute path in the container",
            ),
        ] {
            let (text, code) = found(config, Some(POLICY), &environment(&[]));
            assert!(text.starts_with("error: ") && text.contains(expected), "{config}: {text}");
            assert_eq!(code, 125, "{config}");
        }
        let (text, code) = found("mounts: ['.:/data']", Some(POLICY), &environment(&[]));
        assert_eq!((text.as_str(), code), ("ok: no errors", 0));
    }

    #[test]
    fn invalid_utf8_is_reported_with_its_place() {
        let environment = environment(&[]);
        let (text, code) = found_in(b"image: x\nprefix: \xe9", None, &environment);
        let config = "error: .sandbox/sandbox.yaml:2:9: not UTF-8: save the file as UTF-8";
        assert_eq!((text.as_str(), code), (config, 125));
        let (text, code) = found_in(b"", Some(b"\xff\xfed\0"), &environment);
        let policy = "error: .sandbox/network-allowlist.yaml:1:1: not UTF-8: save the file as UTF-8";
        assert_eq!((text.as_str(), code), (policy, 125));
    }

    #[test]
    fn without_network_sandbox_unusable_surrogates_are_reported() {
        let config = "network_sandbox: false\nmasked_secrets: {TOKEN: {scopes: [a.example], headers: [x]}}\n";
        let (text, code) = found(config, None, &environment(&[("TOKEN", "hunter2-hunter2-hunter2")]));
        assert_eq!(code, 0);
        assert!(text.contains("services will refuse the values of TOKEN"), "{text}");
    }
}
