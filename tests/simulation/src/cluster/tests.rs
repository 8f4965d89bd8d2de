//! Cases that can be computed by hand, and what holds whatever fails.

use clap::Parser as _;

use super::*;
use crate::Cli;

/// The base with these options, without random times and failures.
fn steady(options: &str) -> Parameters {
    let fixed = "simulation --spread=0 --failures=0 ".to_owned();
    let parameters = Cli::parse_from((fixed + options).split_whitespace()).parameters;
    parameters.check().unwrap();
    parameters
}

fn seconds(outcome: &Outcome, cause: Cause) -> f64 {
    outcome.waits[cause as usize]
}

#[test]
fn one_place_takes_the_sum_of_all_times() {
    let outcome = simulate(&steady("--tasks=3 --nodes=1 --slots=1 --calls=4"));
    let once = 1e9 / 1.25e9 + 13.0;
    let each = 0.1 + 1.5 + 2e7 / 1.25e9 + 2.0 + 4.0 * (5.0 + 10.0) + 2e6 / 1.25e9;
    assert!((outcome.makespan - once - 3.0 * each).abs() < 1e-6, "{}", outcome.makespan);
    // The others wait for the first, the third for the second as well.
    assert!((seconds(&outcome, Cause::Place) - 2.0 * once - 3.0 * each).abs() < 1e-6);
    assert!((seconds(&outcome, Cause::Image) - once).abs() < 1e-6);
    assert_eq!(outcome.results, [1, 1, 1]);
}

#[test]
fn makespan_of_calls_alone_is_their_number_through_the_limit() {
    let quick = "--tasks=50 -j50 --calls=20 --tools=0 --answer=0 --overhead=0 --warm --tokens=1 --start-delay=0 \
                 --start-rate=1e6 --bandwidth=1e12 --retries=1000000 --longest-retry-delay=0.01";
    for rate in [10.0, 40.0] {
        let outcome = simulate(&steady(&format!("{quick} --requests-per-minute={}", rate * 60.0)));
        // The first second's calls are admitted at once.
        let expected = (50.0 * 20.0 - rate) / rate;
        assert!((outcome.makespan - expected).abs() < expected * 0.02, "{}", outcome.makespan);
        assert_eq!((outcome.bottleneck(), outcome.limited), ("API limit", 0));
    }
}

#[test]
fn nodes_fetch_their_image_one_after_the_other() {
    let options = "--tasks=10 --nodes=10 --slots=1 --image=1e10 --bandwidth=1e9 --bundle=0 --result=0";
    let outcome = simulate(&steady(options));
    // The last image is there after ten times 10 s; the tasks before it wait for the same link.
    let expected = 0.1 + 1.5 + 10.0 * 10.0 + 13.0 + 2.0 + 20.0 * 15.0;
    assert!((outcome.makespan - expected).abs() < 1e-6, "{}", outcome.makespan);
}

#[test]
fn scarce_resource_is_named() {
    for (options, expected) in [
        ("-j5", "places"),
        ("--nodes=1", "places"),
        ("--image=1e11", "file system"),
        ("--bundle=5e10", "file system"),
        ("--start-rate=0.01", "controller"),
        ("--requests-per-minute=60", "API limit"),
        ("--tokens-per-minute=6000", "API limit"),
        ("--arrivals=0.01", "arrivals"),
    ] {
        let outcome = simulate(&steady(&format!("--tasks=200 {options}")));
        assert_eq!(outcome.bottleneck(), expected, "{options}: {outcome:?}");
        assert!(outcome.utilisation.iter().all(|used| (0.0..=1.01).contains(used)), "{options}: {outcome:?}");
    }
}

#[test]
fn each_task_has_one_result_or_is_given_up_whatever_fails() {
    for seed in 0..10 {
        let mut parameters = steady("--tasks=500 --nodes=20 --tokens-per-minute=20000 --repair=600");
        (parameters.seed, parameters.failures, parameters.spread) = (seed, 3_000.0, 0.5);
        let outcome = simulate(&parameters);
        assert!(outcome.results.iter().all(|results| *results <= 1));
        let results: u32 = outcome.results.iter().sum();
        assert_eq!(results + outcome.given_up, 500);
        assert_eq!(outcome.starts, results + outcome.limited + outcome.failed);
        assert!(outcome.limited >= 5 * outcome.given_up && outcome.failed > 0, "{outcome:?}");
        let waited = f64::from(outcome.failed) * (300.0 + 121.0);
        assert!((seconds(&outcome, Cause::Failure) - waited).abs() < 1.0, "{outcome:?}");
        assert!(outcome.lost > 0.0 && outcome.lost < outcome.held);
        assert_eq!(outcome, simulate(&parameters));
    }
}
