//! The measured numbers as Markdown: ratios first, since they say the same on most machines.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

/// The tables of a whole measurement.
pub(crate) fn markdown(measured: &Value) -> Result<String> {
    let mut text = caption(measured)?;
    text += &tasks(measured)?;
    text += &days(measured)?;
    text += &steps(measured)?;
    text += &requests(measured)?;
    text += &proxy(measured)?;
    Ok(text)
}

fn caption(measured: &Value) -> Result<String> {
    let text = |pointer: &str| {
        measured
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("unknown")
    };
    Ok(format!(
        "Measured on {} processors ({}), Linux {}, podman {}. Times are medians.\n",
        number(measured, "/machine/processors")?,
        text("/machine/processor"),
        text("/machine/kernel"),
        text("/podman"),
    ))
}

/// A time of `tasks`, by its row, and the one that it is compared with.
const TASKS: [(&str, &str, &str); 10] = [
    (
        "bare container, network of the engine",
        "/tasks/bare_ms/median",
        "/tasks/bare_ms/median",
    ),
    (
        "bare container, no network",
        "/tasks/bare_without_network_ms/median",
        "/tasks/bare_ms/median",
    ),
    (
        "`sandbox run -- true`",
        "/tasks/command_ms/median",
        "/tasks/bare_ms/median",
    ),
    (
        "the library on a started sandbox, to the exit code",
        "/tasks/library_ms/median",
        "/tasks/bare_exited_ms/median",
    ),
    (
        "start on a git work tree of 10,000 files, plain mount",
        "/tasks/tree_plain_ms/median",
        "/tasks/tree_plain_ms/median",
    ),
    (
        "the same, protected",
        "/tasks/tree_protected_ms/median",
        "/tasks/tree_plain_ms/median",
    ),
    (
        "the same, as a copy",
        "/tasks/tree_copy_ms/median",
        "/tasks/tree_plain_ms/median",
    ),
    (
        "apply of one changed file in 100,000, over the start on them",
        "/tasks/large_apply_ms/median",
        "/tasks/large_plain_ms/median",
    ),
    (
        "`cp -a` of 50,000 small files",
        "/tasks/many_copied_ms/median",
        "/tasks/many_copied_ms/median",
    ),
    (
        "apply of as many new files",
        "/tasks/many_apply_ms/median",
        "/tasks/many_copied_ms/median",
    ),
];

fn tasks(measured: &Value) -> Result<String> {
    let count = number(measured, "/tasks/bare_ms/count")?;
    let mut text = format!("\n| `true`, image warm, {count} runs each | time | ratio |\n|---|---:|---:|\n");
    for (name, time, base) in TASKS {
        let (time, base) = (number(measured, time)?, number(measured, base)?);
        let _ = writeln!(text, "| {name} | {time:.0} ms | {} |", ratio(time, base));
    }
    Ok(text)
}

fn days(measured: &Value) -> Result<String> {
    let mut text =
        "\n| A day of work | in the tree | in a copy, applied | ratio |\n|---|---:|---:|---:|\n".to_owned();
    let days = measured
        .pointer("/tasks/days")
        .and_then(Value::as_array)
        .context("no days were measured")?;
    for day in days {
        let name = day.get("name").and_then(Value::as_str);
        let name = name.context("a day has no name")?;
        let (direct, copy) = (number(day, "/direct_ms/median")?, number(day, "/copy_ms/median")?);
        let _ = writeln!(
            text,
            "| {name} | {direct:.0} ms | {copy:.0} ms | {} |",
            ratio(copy, direct)
        );
    }
    Ok(text)
}

fn steps(measured: &Value) -> Result<String> {
    let mut text = "\n| Steps of the library's time | at |\n|---|---:|\n".to_owned();
    let steps = measured
        .pointer("/tasks/steps")
        .and_then(Value::as_array)
        .context("no steps were measured")?;
    for step in steps {
        let name = step
            .get("name")
            .and_then(Value::as_str)
            .context("a step has no name")?;
        let _ = writeln!(text, "| {name} | {:.0} ms |", number(step, "/at_ms/median")?);
    }
    Ok(text)
}

/// A row of each protocol: its name, the number's key, its unit.
const REQUESTS: [(&str, &str, &str); 4] = [
    ("requests", "requests_per_second", "/s"),
    ("p50 of a small response", "p50_us", " µs"),
    ("download", "down_mb_per_second", " MB/s"),
    ("upload", "up_mb_per_second", " MB/s"),
];

fn requests(measured: &Value) -> Result<String> {
    let concurrency = number(measured, "/proxy/concurrency")?;
    let mut text = format!(
        "\n| Requests, {concurrency} at once for the rate, one at a time else | direct | through the proxy | ratio |\n|---|---:|---:|---:|\n"
    );
    for (protocol, name) in [("http1", "HTTP/1.1"), ("http2", "HTTP/2")] {
        for (what, key, unit) in REQUESTS {
            let direct = number(measured, &format!("/proxy/{protocol}/direct/{key}"))?;
            let proxied = number(measured, &format!("/proxy/{protocol}/proxied/{key}"))?;
            let ratio = ratio(proxied, direct);
            let _ = writeln!(
                text,
                "| {name} {what} | {direct:.0}{unit} | {proxied:.0}{unit} | {ratio} |"
            );
        }
    }
    Ok(text)
}

fn proxy(measured: &Value) -> Result<String> {
    let added = |protocol: &str| -> Result<f64> {
        let of = |side: &str| number(measured, &format!("/proxy/{protocol}/{side}/p50_us"));
        Ok(of("proxied")? - of("direct")?)
    };
    let mebibytes = |key: &str| number(measured, &format!("/proxy/{key}")).map(|kib| kib / 1024.0);
    let long = number(measured, "/proxy/signing/long_bytes")? / f64::from(1 << 30);
    let rows = [
        (
            "start to ready".to_owned(),
            format!("{:.1} ms", number(measured, "/proxy/start_ms/median")?),
        ),
        (
            "added p50, HTTP/1.1".to_owned(),
            format!("{:.0} µs", added("http1")?),
        ),
        (
            "added p50, HTTP/2".to_owned(),
            format!("{:.0} µs", added("http2")?),
        ),
        (
            "memory, idle".to_owned(),
            format!("{:.1} MiB", mebibytes("idle_kib")?),
        ),
        (
            "memory, after the load".to_owned(),
            format!("{:.1} MiB", mebibytes("loaded_kib")?),
        ),
        (
            "memory, peak".to_owned(),
            format!("{:.1} MiB", mebibytes("peak_kib")?),
        ),
        (
            format!("memory, peak after signing {long:.0} GiB"),
            format!("{:.1} MiB", mebibytes("signing/peak_kib")?),
        ),
    ];
    let mut text = signing(measured)?;
    text += "\n| The proxy | |\n|---|---:|\n";
    for (name, value) in rows {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    Ok(text)
}

fn signing(measured: &Value) -> Result<String> {
    let mut text =
        "\n| Chunked upload to S3, HTTP/1.1 | passed on | signed again | ratio |\n|---|---:|---:|---:|\n"
            .to_owned();
    let passed = number(measured, "/proxy/signing/passed_mb_per_second")?;
    let signed = number(measured, "/proxy/signing/signed_mb_per_second")?;
    let _ = writeln!(
        text,
        "| throughput | {passed:.0} MB/s | {signed:.0} MB/s | {} |",
        ratio(signed, passed)
    );
    Ok(text)
}

fn ratio(of: f64, to: f64) -> String {
    format!("{:.2}×", of / to)
}

pub(super) fn number(value: &Value, pointer: &str) -> Result<f64> {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .with_context(|| format!("{pointer} was not measured"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured() -> Value {
        let side = |rate: f64| {
            json!({
                "requests_per_second": rate, "p50_us": 2e6 / rate, "p99_us": 1, "down_mb_per_second": 900, "up_mb_per_second": 800,
            })
        };
        let protocol = json!({"direct": side(20_000.0), "proxied": side(5_000.0)});
        json!({
            "machine": {"processor": "an abacus", "processors": 2, "kernel": "6.1"},
            "podman": "5.4.2",
            "tasks": {
                "bare_ms": {"median": 100.0, "count": 20}, "bare_exited_ms": {"median": 80.0},
                "bare_without_network_ms": {"median": 60.0}, "command_ms": {"median": 250.0}, "library_ms": {"median": 120.0},
                "tree_plain_ms": {"median": 100.0}, "tree_protected_ms": {"median": 110.0}, "tree_copy_ms": {"median": 120.0},
                "large_plain_ms": {"median": 100.0}, "large_apply_ms": {"median": 20.0},
                "many_copied_ms": {"median": 2000.0}, "many_apply_ms": {"median": 2400.0},
                "days": [{"name": "monorepo", "direct_ms": {"median": 400.0}, "copy_ms": {"median": 500.0}}],
                "steps": [{"name": "the proxy serves", "at_ms": {"median": 70.0}}],
            },
            "proxy": {
                "start_ms": {"median": 2.5}, "idle_kib": 4096, "loaded_kib": 8192, "peak_kib": 9216, "concurrency": 16,
                "http1": protocol, "http2": protocol,
                "signing": {"passed_mb_per_second": 400.0, "signed_mb_per_second": 300.0, "long_bytes": 5_368_709_120_u64, "peak_kib": 10240},
            },
        })
    }

    #[test]
    fn every_number_stands_beside_its_ratio() {
        let text = markdown(&measured()).unwrap();
        for row in [
            "| `sandbox run -- true` | 250 ms | 2.50× |",
            "| the library on a started sandbox, to the exit code | 120 ms | 1.50× |",
            "| the same, as a copy | 120 ms | 1.20× |",
            "| apply of as many new files | 2400 ms | 1.20× |",
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
    fn a_number_that_is_missing_is_an_error_not_a_gap() {
        let mut measured = measured();
        measured.pointer_mut("/tasks/command_ms").unwrap().take();
        assert!(
            markdown(&measured)
                .unwrap_err()
                .to_string()
                .contains("/tasks/command_ms/median")
        );
    }
}
