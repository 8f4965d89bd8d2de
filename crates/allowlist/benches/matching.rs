//! Shows that matching is linear: the worst patterns against ever longer paths.
//!
//! A matcher that backtracks takes four times as long, or worse, for a path of twice the length;
//! this one takes twice as long, so the time per byte stays the same.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;
use std::time::Instant;

use allowlist::PathPattern;
use allowlist::Target;

/// Path lengths in bytes; the last is the longest head that a proxy takes.
const LENGTHS: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// How much longer a byte of the longest path may take than a byte of the shortest.
const TOLERANCE: f64 = 3.0;

fn main() -> Result<(), Box<dyn Error>> {
    println!("ns per byte at {LENGTHS:?} bytes, and the last over the first");
    let mut worst = 0.0_f64;
    for (name, pattern) in patterns() {
        let pattern = PathPattern::new(&pattern)?;
        let row = LENGTHS.map(|length| {
            let target = target(&format!("/{}", "a".repeat(length - 1)));
            per_byte(length, || pattern.matches(black_box(&target)))
        });
        worst = worst.max(report(name, row));
    }
    // Reading a target, with as many decodings as fit.
    let row = LENGTHS.map(|length| {
        let path = format!("/%{}41", "25".repeat((length - 4) / 2));
        per_byte(length, || Target::from_wire(black_box(path.as_bytes())).is_ok())
    });
    worst = worst.max(report("reading: nested escapes", row));
    if worst > TOLERANCE {
        Err(format!("time is not linear in the path: ratio {worst:.2}").into())
    } else {
        Ok(())
    }
}

fn patterns() -> Vec<(&'static str, String)> {
    vec![
        ("one star, hit", "/*a".to_owned()),
        ("two stars, miss at the end", "/*a*b".to_owned()),
        ("twenty stars, miss at the end", format!("/{}b", "*a".repeat(20))),
        ("200 stars, miss at the end", format!("/{}b", "*a".repeat(200))),
        ("long literal after a star, miss", format!("/*{}b", "a".repeat(1000))),
        ("classes between stars, miss", format!("/{}[!a]", "*[a-z]".repeat(100))),
        ("question marks after a star, miss", format!("/*{}b", "?".repeat(1000))),
    ]
}

fn target(path: &str) -> Target {
    match Target::from_wire(path.as_bytes()) {
        Ok(target) => target,
        Err(refusal) => unreachable!("letters are a plain path: {refusal}"),
    }
}

/// The best of several runs, in nanoseconds per byte.
fn per_byte(length: usize, mut run: impl FnMut() -> bool) -> f64 {
    let best = (0..7)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed()
        })
        .min()
        .unwrap_or(Duration::ZERO);
    best.as_secs_f64() * 1e9 / f64::from(u32::try_from(length).unwrap_or(u32::MAX))
}

/// Prints a row and returns its last number over its first.
fn report(name: &str, row: [f64; LENGTHS.len()]) -> f64 {
    let numbers: Vec<String> = row.iter().map(|number| format!("{number:>9.2}")).collect();
    let ratio = row.last().zip(row.first()).map_or(0.0, |(last, first)| last / first);
    println!("{name:<44}{} {ratio:>9.2}", numbers.join(" "));
    ratio
}
