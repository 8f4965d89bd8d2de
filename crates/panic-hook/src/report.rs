//! The report of a panic, and the hook that writes it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::{self, Write as _};
use std::panic::{PanicHookInfo, set_hook};

/// Replaces a message that was built from values.
const WITHHELD: &str = "the message is withheld: it may show a secret";

/// From now on a panic of this process prints its thread and position to stderr, and its message
/// only if that is a constant of the program: a message that is formatted at run time can contain
/// any value, as that of `&secret[..3]` contains the secret. With `RUST_BACKTRACE`, a backtrace
/// follows as usual: it contains functions and files, but no values.
///
/// Programs with secrets call this before they read any. It replaces the process's panic hook, so a
/// library must not call it.
///
/// ```
/// sandbox_panic_hook::withhold_panic_messages();
/// let secret = String::from("ghp_é");
/// // On stderr: "thread 'main' panicked at …, the message is withheld", where the usual hook shows the secret.
/// let panicked = std::panic::catch_unwind(|| secret[..5].len());
/// assert!(panicked.is_err());
/// ```
pub fn withhold_panic_messages() {
    set_hook(Box::new(|panic| {
        // If writing to stderr fails, the panic cannot be reported.
        let _ = writeln!(io::stderr(), "{}", Report(panic, &Backtrace::capture()));
    }));
}

/// A panic, without possible secrets.
struct Report<'a>(&'a PanicHookInfo<'a>, &'a Backtrace);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(panic, backtrace) = self;
        let thread = std::thread::current();
        write!(f, "thread '{}' panicked", thread.name().unwrap_or("<unnamed>"))?;
        if let Some(place) = panic.location() {
            write!(f, " at {place}")?;
        }
        // A message without arguments is a constant of the code; any other is a `String`, or a
        // value of the program.
        let constant = panic.payload().downcast_ref::<&'static str>();
        write!(f, ":\n{}", constant.unwrap_or(&WITHHELD))?;
        if backtrace.status() == BacktraceStatus::Captured {
            write!(f, "\nstack backtrace:\n{backtrace}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! The output of a panicking program, which is the test itself, started again.

    use std::process::{Command, Output};

    use super::*;

    const SECRET: &str = "ghp_é-R8sPdn4zmLx2Vq7JtWc9KbYf3HgEu6AoT1iQ";
    const PROGRAM: &str = "PANIC_MESSAGE_TEST_PROGRAM";

    /// The ways to panic, and the expected output.
    const WAYS: [(&str, &str); 6] = [
        ("slice", "withheld"),
        ("format", "withheld"),
        ("unwrap", "withheld"),
        ("value", "withheld"),
        ("constant", "nothing secret"),
        ("bounds", "withheld"),
    ];

    #[test]
    fn panic_report_has_the_position_and_no_value() {
        if let Some((hook, way)) = asked() {
            return program(&hook, &way);
        }
        for (way, expected) in WAYS {
            let stderr = stderr(&start("withheld", way, "0"));
            assert!(stderr.contains("panicked at") && stderr.contains("report.rs:"), "{way}: {stderr}");
            assert!(stderr.contains(expected), "{way}: {stderr}");
            assert!(!stderr.contains(&SECRET[4..]) && !stderr.contains("stack backtrace"), "{way}: {stderr}");
            let traced = self::stderr(&start("withheld", way, "full"));
            assert!(traced.contains("stack backtrace") && !traced.contains(&SECRET[4..]), "{way}: {traced}");
        }
        // Control: Rust's own hook shows it.
        for way in ["slice", "format", "unwrap"] {
            let stderr = stderr(&start("usual", way, "0"));
            assert!(stderr.contains(SECRET), "{way}: {stderr}");
        }
    }

    #[expect(clippy::disallowed_methods, reason = "how the program is distinguished from the test")]
    fn asked() -> Option<(String, String)> {
        let asked = std::env::var(PROGRAM).ok()?;
        let (hook, way) = asked.split_once(' ').expect("two words");
        Some((hook.to_owned(), way.to_owned()))
    }

    fn program(hook: &str, way: &str) {
        if hook == "withheld" {
            withhold_panic_messages();
        }
        let secret = std::hint::black_box(SECRET.to_owned());
        match way {
            "slice" => assert_eq!(&secret[..5], ""),
            "format" => panic!("the secret is {secret}"),
            "unwrap" => std::hint::black_box(Err::<(), _>(secret)).unwrap(),
            "value" => std::panic::panic_any(secret),
            "constant" => panic!("nothing secret"),
            "bounds" => assert_eq!(secret.as_bytes()[secret.len()], 0),
            _ => unreachable!("a way to panic"),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the program is the test itself")]
    fn start(hook: &str, way: &str, backtrace: &str) -> Output {
        let itself = std::env::current_exe().unwrap();
        let mut program = Command::new(itself);
        program.args(["--exact", "report::tests::panic_report_has_the_position_and_no_value", "--nocapture"]);
        program
            .env(PROGRAM, format!("{hook} {way}"))
            .env("RUST_BACKTRACE", backtrace)
            .env_remove("RUST_LIB_BACKTRACE");
        let output = program.output().unwrap();
        assert!(!output.status.success(), "{hook} {way}: it panics");
        output
    }

    fn stderr(output: &Output) -> String {
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}
