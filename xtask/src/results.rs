//! Results of tests: totals, second tries, times.

use crate::nextest::Case;
use crate::report::say;

/// The results of several runs of tests.
#[derive(Debug, Default)]
pub(crate) struct Results {
    passed: usize,
    failed: Vec<String>,
    breaches: Vec<String>,
    /// The tests that failed first, and passed when they ran again, alone.
    flaky: Vec<String>,
    times: Vec<(f64, String)>,
}

impl Results {
    /// Adds the tests of one run; `place` distinguishes the runs of one test on several engines.
    pub(crate) fn add(&mut self, place: &str, cases: Vec<Case>) {
        for case in cases {
            let name = format!("{}{place} {}", case.binary, case.name);
            if case.is_breach() {
                self.breaches.push(name.clone());
            }
            match case.failure {
                Some(_) => self.failed.push(name.clone()),
                None => self.passed += 1,
            }
            self.times.push((case.seconds, name));
        }
    }

    /// Adds the results of a second try: `cases` failed before.
    pub(crate) fn add_second_try(&mut self, place: &str, cases: Vec<Case>) {
        let passed = cases.iter().filter(|case| case.failure.is_none());
        self.flaky.extend(passed.map(|case| format!("{}{place} {}", case.binary, case.name)));
        self.add(place, cases);
    }

    /// Adds the results of other runs.
    pub(crate) fn extend(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.breaches.extend(other.breaches);
        self.flaky.extend(other.flaky);
        self.times.extend(other.times);
    }

    /// Whether tests ran and all passed. A run without tests is an error of the suite.
    pub(crate) fn are_good(&self) -> bool {
        self.passed > 0 && self.failed.is_empty()
    }

    /// The tests that passed only when they ran again.
    pub(crate) fn flaky(&self) -> &[String] {
        &self.flaky
    }

    /// The slowest tests first, with their seconds.
    pub(crate) fn slowest(&self, count: usize) -> Vec<(f64, &str)> {
        let mut times: Vec<_> = self.times.iter().map(|(seconds, name)| (*seconds, name.as_str())).collect();
        times.sort_by(|one, other| other.0.total_cmp(&one.0));
        times.truncate(count);
        times
    }

    /// Prints the slowest, flaky and failed tests.
    pub(crate) fn report(&self) {
        say("the slowest tests:");
        for (seconds, name) in self.slowest(10) {
            say(format!("  {seconds:6.1} s  {name}"));
        }
        for name in &self.flaky {
            say(format!("FLAKY   {name}: failed, and passed when it ran again, alone"));
        }
        for name in &self.failed {
            let mark = if self.breaches.contains(name) { "BREACH" } else { "FAILED" };
            say(format!("{mark}  {name}"));
        }
    }

    /// The last line, which continuous integration reads.
    pub(crate) fn line(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, seconds: f64, failure: Option<&str>) -> Case {
        let failure = failure.map(str::to_owned);
        Case { name: name.into(), binary: "p::e2e".into(), seconds, failure }
    }

    #[test]
    fn results_without_tests_are_not_good() {
        assert!(!Results::default().are_good());
    }

    #[test]
    fn second_try_that_passes_is_counted_and_named() {
        let mut results = Results::default();
        results.add(" on podman5", vec![case("a", 1.0, None)]);
        results.add_second_try(" on podman5", vec![case("b", 3.0, None)]);
        assert!(results.are_good());
        assert_eq!(results.flaky(), ["p::e2e on podman5 b"]);
        assert_eq!(results.line(), "2 passed, 0 failed");
        assert_eq!(results.slowest(1), [(3.0, "p::e2e on podman5 b")]);
    }

    #[test]
    fn breach_is_a_failure_with_its_own_mark() {
        let mut results = Results::default();
        results.add("", vec![case("a", 1.0, None), case("b", 1.0, Some("breach: reached the host"))]);
        assert!(!results.are_good());
        assert_eq!(results.breaches, ["p::e2e b"]);
        assert_eq!(results.line(), "1 passed, 1 failed");
    }
}
