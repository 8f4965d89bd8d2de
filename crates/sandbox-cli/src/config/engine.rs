//! Finding the engine's socket.

use std::path::Path;

use sandbox::EngineAddress;

use super::Environment;
use crate::failure::{Failure, START_ENGINE};

/// The engine, and where it was named: the flag, the file, `CONTAINER_HOST`, `DOCKER_HOST`, else podman's socket of the user or of
/// the machine. `DOCKER_HOST` counts only where it is a unix socket: it is most often Docker's.
pub(crate) fn find_engine(
    flag: Option<&EngineAddress>,
    file: Option<&EngineAddress>,
    environment: &Environment,
    is_there: impl Fn(&Path) -> bool,
) -> Result<(EngineAddress, String), Failure> {
    if let Some(address) = flag {
        return Ok((address.clone(), "--engine".to_owned()));
    }
    if let Some(address) = file {
        return Ok((address.clone(), "the configuration".to_owned()));
    }
    if let Some(text) = environment.text("CONTAINER_HOST") {
        let address = text
            .parse()
            .map_err(Failure::doing::<sandbox::InvalidConfig>("use CONTAINER_HOST"))?;
        return Ok((address, "CONTAINER_HOST".to_owned()));
    }
    let docker = environment.text("DOCKER_HOST");
    if let Some(address) = docker.and_then(|text| text.parse().ok()) {
        return Ok((address, "DOCKER_HOST".to_owned()));
    }
    let ignored = match docker {
        Some(_) => "; DOCKER_HOST is set, but to no unix socket",
        None => "",
    };
    let of_the_user = environment
        .path("XDG_RUNTIME_DIR")
        .map(|folder| folder.join("podman/podman.sock"));
    let of_the_machine = Path::new("/run/podman/podman.sock").to_owned();
    let sockets: Vec<_> = of_the_user.into_iter().chain([of_the_machine]).collect();
    if let Some(socket) = sockets.iter().find(|socket| is_there(socket)) {
        return Ok((EngineAddress::unix(socket), format!("the usual place{ignored}")));
    }
    let looked: Vec<String> = sockets
        .iter()
        .map(|socket| socket.display().to_string())
        .collect();
    let message = format!(
        "no engine: neither --engine nor `engine` in the configuration nor CONTAINER_HOST nor DOCKER_HOST names one, and there is no socket at {}{ignored}",
        looked.join(" or ")
    );
    Err(Failure::new(message).with_hint(START_ENGINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        flag: Option<&str>,
        file: Option<&str>,
        environment: &Environment,
        sockets: &[&str],
    ) -> Result<String, String> {
        let parse = |text: &str| text.parse::<EngineAddress>().unwrap();
        let (flag, file) = (flag.map(parse), file.map(parse));
        find_engine(flag.as_ref(), file.as_ref(), environment, |path| {
            sockets.iter().any(|socket| path == Path::new(socket))
        })
        .map(|(address, _)| address.socket().display().to_string())
        .map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_nearest_wish_counts() {
        let usual = ["/run/podman/podman.sock", "/run/user/1/podman/podman.sock"];
        let all = Environment::from([
            ("CONTAINER_HOST", "unix:///container.sock"),
            ("DOCKER_HOST", "unix:///docker.sock"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
        ]);
        let docker = Environment::from([("DOCKER_HOST", "unix:///docker.sock")]);
        let remote = Environment::from([
            ("DOCKER_HOST", "tcp://10.0.0.1:2375"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
        ]);
        let none = Environment::default();
        for (flag, file, environment, expected) in [
            (Some("/flag.sock"), Some("/file.sock"), &all, "/flag.sock"),
            (None, Some("/file.sock"), &all, "/file.sock"),
            (None, None, &all, "/container.sock"),
            (None, None, &docker, "/docker.sock"),
            (None, None, &remote, "/run/user/1/podman/podman.sock"),
            (None, None, &none, "/run/podman/podman.sock"),
        ] {
            assert_eq!(found(flag, file, environment, &usual).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let error = found(None, None, &Environment::default(), &[]).unwrap_err();
        assert!(
            error.contains("CONTAINER_HOST nor DOCKER_HOST names one")
                && error.ends_with("/run/podman/podman.sock"),
            "{error}"
        );
        let docker = Environment::from([("DOCKER_HOST", "tcp://10.0.0.1:2375")]);
        let error = found(None, None, &docker, &[]).unwrap_err();
        assert!(
            error.ends_with("/run/podman/podman.sock; DOCKER_HOST is set, but to no unix socket"),
            "{error}"
        );
        let remote = Environment::from([("CONTAINER_HOST", "ssh://host")]);
        assert_eq!(
            found(None, None, &remote, &[]).unwrap_err(),
            "failed to use CONTAINER_HOST"
        );
    }
}
