//! The measured numbers as Markdown, by the template `results.md`, next to ratios, which mean the
//! same on most machines.

use anyhow::{Context, Result, bail};
use serde_json::Value;

const TEMPLATE: &str = include_str!("results.md");

/// The tables of a whole measurement. A line that begins with `each LIST: ` is repeated for each
/// element of the list.
pub(crate) fn markdown(measured: &Value) -> Result<String> {
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        let Some((list, row)) = line.strip_prefix("each ").and_then(|line| line.split_once(": ")) else {
            text += &filled(line, measured)?;
            continue;
        };
        let items = measured.pointer(&format!("/{list}")).and_then(Value::as_array);
        for item in items.with_context(|| format!("{list} was not measured"))? {
            text += &filled(row, item)?;
        }
    }
    Ok(text)
}

/// Replaces each `{FORMULA}` or `{FORMULA:DECIMALS}` in a line by its value.
fn filled(line: &str, values: &Value) -> Result<String> {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        let (field, after) = after.split_once('}').context("a field has no end")?;
        text += before;
        text += &shown(field, values)?;
        rest = after;
    }
    Ok(text + rest + "\n")
}

fn shown(field: &str, values: &Value) -> Result<String> {
    if let Some(Value::String(text)) = values.pointer(&format!("/{field}")) {
        return Ok(text.clone());
    }
    let (formula, decimals) = field.split_once(':').unwrap_or((field, "0"));
    Ok(format!("{:.1$}", evaluate(formula, values)?, decimals.parse()?))
}

/// The value of a number, or of `A / B` or `A - B`. Each number is constant, or a measurement named
/// by its path.
pub(super) fn evaluate(formula: &str, values: &Value) -> Result<f64> {
    let number = |word: &str| match word.parse() {
        Ok(constant) => Ok(constant),
        Err(_) => values
            .pointer(&format!("/{word}"))
            .and_then(Value::as_f64)
            .with_context(|| format!("{word} was not measured")),
    };
    match *formula.split(' ').collect::<Vec<_>>() {
        [one] => number(one),
        [one, "/", other] => Ok(number(one)? / number(other)?),
        [one, "-", other] => Ok(number(one)? - number(other)?),
        _ => bail!("`{formula}` is not a formula"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured() -> Value {
        let side = |rate: f64| {
            json!({
                "requests_per_second": rate, "p50_us": 2e6 / rate, "paced_p50_us": 200, "paced_p99_us": 900, "connections_per_second": rate / 10.0, "down_mb_per_second": 900, "up_mb_per_second": 800,
            })
        };
        let protocol = json!({"direct": side(20_000.0), "proxied": side(5_000.0), "processor_us": 61.5});
        json!({
            "machine": {"processor": "an abacus", "processors": 2, "kernel": "6.1"},
            "podman": "5.4.2",
            "tasks": {
                "bare_ms": {"median": 100.0, "count": 20}, "bare_exited_ms": {"median": 80.0},
                "at_once": [{"count": 8, "podman_ms": {"median": 500.0}, "without_network_ms": {"median": 250.0}, "sandboxed_ms": {"median": 400.0}}],
                "in_flight": {
                    "count": 100,
                    "bare": {"per_second": 10, "p50_ms": 900, "p99_ms": 1000},
                    "sandboxed": {"per_second": 5, "p50_ms": 1800, "p99_ms": 2500},
                },
                "bare_exec_ms": {"median": 50.0}, "executor_ms": {"median": 2.0},
                "bare_processor_ms": {"median": 200.0}, "command_processor_ms": {"median": 500.0}, "library_ms": {"median": 120.0}, "library_warm_ms": {"median": 88.0},
                "tree_plain_ms": {"median": 100.0}, "tree_protected_ms": {"median": 110.0}, "tree_copy_ms": {"median": 120.0},
                "large_plain_ms": {"median": 100.0}, "large_apply_ms": {"median": 20.0},
                "many_copied_ms": {"median": 2000.0}, "many_apply_ms": {"median": 2400.0},
                "shell": {"prompt_ms": {"median": 300.0}, "echo_us": {"median": 110.0}, "list_ms": {"median": 30.0}},
                "bare_shell": {"prompt_ms": {"median": 200.0}, "echo_us": {"median": 100.0}, "list_ms": {"median": 60.0}},
                "days": [{"name": "monorepo", "direct_ms": {"median": 400.0}, "copy_ms": {"median": 500.0}}],
                "steps": [{"name": "the proxy serves", "at_ms": {"median": 70.0}}],
            },
            "proxy": {
                "start_ms": {"median": 2.5}, "idle_kib": 4096, "loaded_kib": 8192, "peak_kib": 9216, "concurrency": 16, "answer_ms": {"median": 1.25},
                "http1": protocol, "http2": protocol,
                "signing": {"passed_mb_per_second": 400.0, "signed_mb_per_second": 300.0, "long_bytes": 5_368_709_120_u64, "peak_kib": 10240},
            },
        })
    }

    #[test]
    fn every_number_is_next_to_its_ratio() {
        let text = markdown(&measured()).unwrap();
        for row in [
            "| 8 | 500 ms | 250 ms | 400 ms | 0.80× | 1.60× |",
            "| p99 to the exit code | 1000 ms | 2500 ms | 2.50× |",
            "| a later command of an executor | 2.0 ms | 0.04× |",
            "| of `sandbox run -- true`, with the removal after it | 500 ms | 2.50× |",
            "| processor time a request, HTTP/2 | 61.5 µs |",
            "| the library on a started sandbox, to the exit code | 120 ms | 1.50× |",
            "| the same, with a proxy that was started ahead | 88 ms | 1.10× |",
            "| HTTP/2 new connections with a request each | 2000/s | 500/s | 0.25× |",
            "| added p99 at 1,000 requests a second, HTTP/1.1 | 0 µs |",
            "| the same, as a copy | 120 ms | 1.20× |",
            "| apply of as many new files | 2400 ms | 1.20× |",
            "| start, to the prompt | 200 ms | 300 ms | 1.50× |",
            "| echo of a key | 100 µs | 110 µs | 1.10× |",
            "| monorepo | 400 ms | 500 ms | 1.25× |",
            "| the proxy serves | 70 ms |",
            "| HTTP/1.1 requests | 20000/s | 5000/s | 0.25× |",
            "| added p50, HTTP/2 | 300 µs |",
            "| memory, idle | 4.0 MiB |",
            "| throughput | 400 MB/s | 300 MB/s | 0.75× |",
            "| memory, peak after signing 5 GiB | 10.0 MiB |",
        ] {
            assert!(text.contains(row), "{row} is not in\n{text}");
        }
    }

    #[test]
    fn missing_number_is_an_error() {
        let mut measured = measured();
        measured.pointer_mut("/tasks/library_ms").unwrap().take();
        assert!(markdown(&measured).unwrap_err().to_string().contains("tasks/library_ms/median"));
    }
}
