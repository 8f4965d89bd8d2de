//! A run as a command line, for logs.

use std::fmt;

use crate::spec::{Launch, Network};

use super::{RunSpec, VolumeSpec};

/// Replaces a value that is not shown.
const HIDDEN: &str = "<hidden>";
/// Shorter values are shown: hiding them would make the line unreadable and protect nothing.
const MIN_HIDDEN: usize = 4;

impl fmt::Display for RunSpec {
    /// The closest `podman` command line, in one line. Values of environment variables are hidden
    /// everywhere, including arguments and paths. Settings without an equivalent flag are left out;
    /// a sandboxed network appears as a network of that name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.without_values(&command_line(self)))
    }
}

impl RunSpec {
    /// `words` with quotes where a shell needs them, and without the values of variables.
    fn without_values(&self, words: &[String]) -> String {
        let mut values: Vec<&str> = self
            .launch
            .env
            .variables()
            .values()
            .map(String::as_str)
            .filter(|value| value.len() >= MIN_HIDDEN)
            .collect();
        // A value that is part of a longer one must not leave the rest of that one visible.
        values.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
        let words: Vec<String> = words
            .iter()
            .map(|word| values.iter().fold(word.clone(), |word, value| word.replace(value, HIDDEN)))
            .map(|word| quoted(&word))
            .collect();
        words.join(" ")
    }
}

fn command_line(spec: &RunSpec) -> Vec<String> {
    let mut line = vec!["podman".to_owned()];
    let Launch { isolation, limits, .. } = &spec.mounted_launch();
    line.extend(isolation.runtime.map(|runtime| format!("--runtime={runtime}")));
    line.push(if spec.sealed { "create" } else { "run" }.to_owned());
    if !spec.sealed {
        line.push("--detach".to_owned());
    }
    line.push(format!("--name={}", spec.name));
    line.push(format!("--hostname={}", isolation.hostname));
    let network = match spec.launch.network {
        Network::Disabled => "none",
        Network::Sandboxed(_) => "sandboxed",
        Network::Unrestricted => "bridge",
    };
    line.push(format!("--network={network}"));
    line.push("--log-driver=k8s-file".to_owned());
    line.push(format!("--log-opt=max-size={}", spec.log_limit.bytes()));
    line.extend(isolation.flags());
    line.extend(limits.memory.map(|memory| format!("--memory={memory}")));
    let with_swap = limits.memory.map(|memory| memory.bytes().saturating_add(isolation.swap));
    line.extend(with_swap.map(|bytes| format!("--memory-swap={bytes}b")));
    line.extend(limits.cpus.map(|cpus| format!("--cpus={cpus}")));
    line.extend(limits.pids.map(|pids| format!("--pids-limit={pids}")));
    line.extend(limits.disk.map(|disk| format!("--storage-opt=size={disk}")));
    let annotations = spec.annotations.iter();
    line.extend(annotations.map(|(key, value)| format!("--annotation={key}={value}")));
    line.extend(spec.mounted().map(volume));
    let variables = spec.launch.env.variables().keys();
    line.extend(variables.map(|name| format!("--env={name}={HIDDEN}")));
    line.extend(spec.launch.working_dir.iter().map(|dir| format!("--workdir={dir}")));
    line.push(spec.launch.image.as_str().to_owned());
    line.extend(spec.command.iter().cloned());
    line
}

fn volume(volume: &VolumeSpec) -> String {
    let access = if volume.read_only { ",ro" } else { "" };
    format!(
        "--volume={}:{}:{}{access}",
        volume.host_path.display(),
        volume.container_path,
        volume.sharing.relabel()
    )
}

/// One shell word, on one line for any content.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+<>".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let printable: String = word
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect();
    format!("'{}'", printable.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{AnnotationKey, ContainerEnv, ImageTag, Isolation};

    #[test]
    fn value_of_a_variable_is_hidden_everywhere() {
        let secret = "hunter2-hunter2";
        let spec = RunSpec::new(
            "r".parse().unwrap(),
            ImageTag::new("localhost/i"),
            ["sh", "-c", "curl -H 'X: hunter2-hunter2' x; echo hunter2"],
        )
        .env(ContainerEnv::default().with("TOKEN", secret).with("SHORT", "hunter2").with("N", "1"))
        .volume(VolumeSpec::new("/srv/hunter2", "/x").private().read_only())
        .annotation(AnnotationKey::DossierMetaPath, "/m/hunter2-hunter2");
        for text in [spec.to_string(), format!("{:?}", spec.launch.env)] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        let text = spec.to_string();
        for part in [
            "podman run --detach --name=r ",
            "--network=none",
            "--security-opt=no-new-privileges",
            "--cap-drop=all",
            "--volume=/srv/<hidden>:/x:Z,ro",
            "--env=TOKEN=<hidden>",
            "--env=N=<hidden>",
            r"'curl -H '\''X: <hidden>'\'' x; echo <hidden>'",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn rendering_is_one_line_and_shows_disabled_settings() {
        let open = Isolation { no_new_privileges: false, ..Isolation::agent() };
        let spec = RunSpec::new("r".parse().unwrap(), ImageTag::new("i"), ["echo", "a\nb\u{1b}[31m", ""])
            .isolation(open)
            .volume(VolumeSpec::new("/srv", "/x"))
            .sealed();
        let text = spec.to_string();
        assert!(text.starts_with("podman create --name=r "), "{text}");
        assert!(!text.contains('\n') && !text.contains('\u{1b}'), "{text}");
        assert!(!text.contains("no-new-privileges") && !text.contains("--volume"), "{text}");
        assert!(text.ends_with(r"echo 'a\nb\u{1b}[31m' ''"), "{text}");
    }
}
