//! Finding the engine's socket.

use std::ffi::OsStr;
use std::path::Path;

use sandbox::EngineAddress;

use super::Environment;
use crate::failure::{Failure, START_ENGINE};

/// The engine, and where it was named: the flag, the file, else where the library finds it.
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
    let variable = |name: &str| environment.exact(name).map(OsStr::to_owned);
    let found = EngineAddress::discover_in(variable, is_there);
    found.map_err(|error| Failure::new(error.to_string()).with_hint(START_ENGINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_over_the_file_and_that_over_the_environment() {
        let environment = Environment::from([("CONTAINER_HOST", "unix:///environment.sock")]);
        let parse = |text: &str| text.parse::<EngineAddress>().unwrap();
        let (flag, file) = (parse("/flag.sock"), parse("/file.sock"));
        for (flag, file, expected) in [
            (Some(&flag), Some(&file), "/flag.sock"),
            (None, Some(&file), "/file.sock"),
            (None, None, "/environment.sock"),
        ] {
            let (address, _) = find_engine(flag, file, &environment, |_| false).unwrap();
            assert_eq!(address.socket(), Path::new(expected));
        }
    }
}
