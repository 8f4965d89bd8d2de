//! The attempts by their arguments. Each prints one JSON object: `{"outcome": "reached" |
//! "refused" | "blocked", "detail": …}`; the test that started it decides what is right.

use std::fs;
use std::io;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{flood, query, reach};

/// Makes the attempt that `words` describe, and prints its outcome.
pub(crate) fn make(words: &[&str]) -> io::Result<()> {
    if let ["--after", seconds, rest @ ..] = words {
        // A new interface's link-local address may be used after about two seconds.
        wait(seconds)?;
        return make(rest);
    }
    let outcome = match attempt(words) {
        Ok(detail) => json!({"outcome": "reached", "detail": detail}),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
        // The peer's host refused the connection, so it was reached.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            json!({"outcome": "refused", "detail": error.to_string()})
        }
        Err(error) => json!({"outcome": "blocked", "detail": error.to_string()}),
    };
    println!("{outcome}");
    Ok(())
}

fn attempt(words: &[&str]) -> io::Result<String> {
    match words {
        ["tcp", address, port] => reach::tcp(parsed(address)?, parsed(port)?, None),
        ["tcp", address, port, "--device", device] => {
            reach::tcp(parsed(address)?, parsed(port)?, Some(device))
        }
        ["udp", address, count] => reach::udp(parsed(address)?, parsed(count)?),
        ["icmp", address, count] => reach::icmp(parsed(address)?, parsed(count)?),
        ["dns", server, name, kind] => query::ask(parsed(server)?, name, parsed(kind)?, false),
        ["dns", server, name, kind, "--tcp"] => query::ask(parsed(server)?, name, parsed(kind)?, true),
        ["names", host, count] => flood::names(host, parsed(count)?),
        ["slow", host, port, count, seconds] => {
            flood::slow(host, parsed(port)?, parsed(count)?, parsed(seconds)?)
        }
        ["addresses"] => {
            let v6 = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
            Ok(format!("{}\n{v6}", fs::read_to_string("/proc/net/fib_trie")?))
        }
        ["sleep", seconds] => {
            wait(seconds)?;
            Ok("slept".to_owned())
        }
        _ => Err(invalid(&words.join(" "))),
    }
}

fn wait(seconds: &str) -> io::Result<()> {
    // tidy: sleep: requested by the test
    thread::sleep(Duration::from_secs(parsed(seconds)?));
    Ok(())
}

fn parsed<T: FromStr>(word: &str) -> io::Result<T> {
    word.parse().map_err(|_| invalid(word))
}

fn invalid(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("no such attempt: `{words}`"))
}
