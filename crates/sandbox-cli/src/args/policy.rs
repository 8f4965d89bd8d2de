//! `policy …` and `stop`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Output;

/// The longest time that a shield can be down.
const LONGEST: Duration = Duration::from_hours(24);

#[derive(Debug, Subcommand)]
#[command(after_help = "\
RUN is an instance that `sandbox status` shows, or the beginning of its id; it can be left out while one run is going on. A command \
returns when the change is in force and in the network log.")]
pub(crate) enum PolicyCommand {
    /// Show a run's policy, and whether its shield is up
    Show {
        #[command(flatten)]
        run: RunArg,
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Replace a run's policy
    Set {
        /// Allowlist file
        file: PathBuf,
        #[command(flatten)]
        run: RunArg,
    },
    /// Lower a run's shield for a time: it reaches any public host
    ///
    /// Private and reserved addresses stay out of reach, credentials stay masked, and every request is logged: `[shield: down]` marks those
    /// that no rule allows.
    Down {
        /// How long: a number and s, m or h; at most 24h
        #[arg(long = "for", value_name = "TIME", value_parser = time)]
        time: Duration,
        #[command(flatten)]
        run: RunArg,
    },
    /// Raise a run's shield again before its time is over
    Up {
        #[command(flatten)]
        run: RunArg,
    },
    /// Cut a run off from the network for good
    Quarantine {
        #[command(flatten)]
        run: RunArg,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArg {
    /// Run, by its id or the beginning of it [default: the only one]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What runs is asked to end with SIGTERM, and killed after 5 seconds; `sandbox run`, `agent` or `exec` ends with exit code 143.")]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// Stop all runs of this user
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,
}

/// `90s`, `10m`, `2h`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(unit)?;
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(*seconds)
    });
    let time = seconds.map(Duration::from_secs).filter(|time| !time.is_zero() && *time <= LONGEST);
    time.ok_or_else(|| "write a time such as 90s, 10m or 2h, of at most 24h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_a_bound() {
        for (text, seconds) in
            [("90s", Some(90)), ("10m", Some(600)), ("24h", Some(86_400)), ("1440m", Some(86_400))]
        {
            assert_eq!(time(text).ok().map(|time| time.as_secs()), seconds, "{text}");
        }
        for text in [
            "",
            "10",
            "m",
            "0s",
            "25h",
            "-1s",
            "+1s",
            "1.5h",
            "10 m",
            "99999999999999999999h",
            "5124095576030432h",
            "1d",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
