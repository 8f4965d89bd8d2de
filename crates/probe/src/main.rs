//! The probe: makes the checks of an order, and prints one JSON object a line.
//!
//! Nothing that it tries harms a machine on which it succeeds: attempts are made so that the kernel's answer tells whether they were
//! permitted, and are taken back. Those that would change the probe itself are made by a process of their own.
#![expect(clippy::print_stdout, reason = "findings are the program's output")]

mod attempt;
mod check;
mod checks;
mod child;
mod seen;

use std::process::ExitCode;

use sandbox_verify_probe::{Finding, Order};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["verify", order] => match serde_json::from_str::<Order>(order) {
            Ok(order) => verify(&order),
            Err(error) => {
                println!("cannot read the order: {error}");
                return ExitCode::from(2);
            }
        },
        ["exit", code] => return ExitCode::from(code.parse::<u8>().unwrap_or(2)),
        ["attempt", name, rest @ ..] => return attempt::make(name, rest),
        _ => {
            println!("the probe of `sandbox verify`; it means nothing outside of a container");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn verify(order: &Order) {
    for id in &order.checks {
        let Some(promise) = sandbox_verify_probe::promise(id) else {
            continue;
        };
        let seen = checks::make(id, order);
        let finding = Finding {
            id: id.clone(),
            category: promise.category,
            held: seen.held,
            detail: seen.detail,
        };
        // Text and numbers always have a form in JSON.
        println!("{}", serde_json::to_string(&finding).unwrap_or_default());
    }
}
