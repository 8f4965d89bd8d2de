//! The host: the prerequisites of proxies, and the limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit};
use sandbox::diagnostics::Prerequisites;
use sandbox::{SandboxConfig, SandboxError};

use super::parts;
use super::report::Check;

/// The number of open files that a busy proxy, its log and the engine's socket need.
const FEWEST_FILES: u64 = 1024;

/// The checks that need no engine.
pub(super) fn checks(config: &SandboxConfig) -> Vec<Check> {
    let found = Prerequisites::look(config);
    let parts = parts::check(&found);
    let mut checks = vec![
        prerequisite("proxy program", found.proxy_program.map(|path| path.display().to_string())),
        prerequisite("inside program", found.inside_program.map(|path| path.display().to_string())),
        prerequisite("root authority", found.root_authority.map(|path| path.display().to_string())),
        prerequisite("name server", found.resolver.map(|address| address.to_string())),
        open_files(getrlimit(Resource::Nofile)),
    ];
    checks.extend(parts);
    checks
}

fn prerequisite(name: &'static str, found: Result<String, impl Into<SandboxError>>) -> Check {
    match found {
        Ok(detail) => Check::ok(name, detail),
        Err(error) => Check::failed(name, &error.into().into()),
    }
}

fn open_files(limit: Rlimit) -> Check {
    match limit.current {
        Some(current) if current < FEWEST_FILES => Check::warn(
            "open files",
            format!("the limit of this process is {current} open files"),
            format!("raise the limit: `ulimit -n {FEWEST_FILES}`"),
        ),
        Some(current) => Check::ok("open files", format!("{current} at once")),
        None => Check::ok("open files", "no limit"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    #[test]
    fn low_limit_of_open_files_is_a_warning() {
        for (current, expected) in
            [(Some(256), Verdict::Warn), (Some(1024), Verdict::Ok), (None, Verdict::Ok)]
        {
            assert_eq!(open_files(Rlimit { current, maximum: None }).verdict(), expected, "{current:?}");
        }
    }

    #[test]
    fn missing_prerequisites_are_reported_with_their_fix() {
        let state = tempfile::tempdir().unwrap();
        let mut config = SandboxConfig::new(sandbox::EngineAddress::unix("/no/such.sock"), state.path());
        config.proxy_dir = Some(state.path().to_owned());
        config.upstream.dns = Some("192.0.2.1:53".parse().unwrap());
        let checks = checks(&config);
        let verdicts: Vec<_> = checks.iter().take(4).map(Check::verdict).collect();
        assert_eq!(verdicts, [Verdict::Fail, Verdict::Fail, Verdict::Ok, Verdict::Ok], "{checks:?}");
    }
}
