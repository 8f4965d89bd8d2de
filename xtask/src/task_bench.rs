//! `bench`: measures the overhead of the sandbox, as absolute numbers and ratios. The numbers in
//! docs/performance.md are from here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use crate::apt::{self, Needed};
use crate::bench::{goals, template};
use crate::cargo;
use crate::engine::{Podman, PrivateEngine, ensure_image};
use crate::process::{self, command};
use crate::report::{say, seconds, step};
use crate::task_base_image::BASE;
use crate::task_proxy_image::{self, INSIDE};
use crate::workspace;

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Measure on this podman version.
    #[arg(long, value_name = "VERSION", default_value = "5")]
    podman: Podman,
    /// Run fewer and shorter rounds.
    #[arg(long)]
    quick: bool,
    /// Also write all measurements as JSON.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Addresses of the network namespace in which the proxy is measured.
const ORIGIN: &str = "203.0.113.10";
const PROXY: &str = "203.0.113.20";

/// The programs, built as for a release.
struct Programs {
    sandbox: PathBuf,
    proxy: PathBuf,
    bench_tasks: PathBuf,
    bench_proxy: PathBuf,
}

/// Prints the tables, and fails if a goal was missed.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    say("this builds everything in release, which takes minutes the first time, and then measures for about");
    say("half an hour, with --quick for less; other load on the machine distorts the measurement");
    let programs = build()?;
    let engine = PrivateEngine::new(Some(args.podman));
    let version = step(&format!("starting {}", args.podman.name()), || engine.ensure())?;
    ensure_image(engine.socket(), &BASE)?;
    let begin = Instant::now();
    let tasks = step("measuring tasks", || measure_tasks(args, &programs, &engine))?;
    let proxy = step("measuring the proxy", || measure_proxy(args, &programs))?;
    say(format!("measured for {}", seconds(begin.elapsed())));
    let measured = json!({
        "schema": 1,
        "machine": machine(),
        "podman": version,
        "quick": args.quick,
        "tasks": tasks,
        "proxy": proxy,
    });
    println!("{}", template::markdown(&measured)?);
    let (text, reached) = goals::markdown(&measured)?;
    println!("{text}");
    if let Some(file) = &args.output {
        fs::write(file, format!("{measured:#}\n"))
            .with_context(|| format!("failed to write {}", file.display()))?;
    }
    goals::demand(reached)
}

fn build() -> Result<Programs> {
    let mut built = step("building the command and the benchmarks", || {
        let programs = ["sandbox", "bench-tasks", "bench-proxy"].map(|name| ["--bin", name]);
        let args = ["build", "--workspace", "--release"];
        cargo::executables(args.into_iter().chain(programs.into_iter().flatten()))
    })?;
    let mut take = |name: &str| built.remove(name).with_context(|| format!("cargo built no program {name}"));
    // Next to each other, as in a release, which looks for the proxy nowhere else.
    let folder = workspace::target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let proxy = task_proxy_image::build_released()?;
    copy(&proxy.with_file_name(INSIDE), &folder.join(INSIDE))?;
    Ok(Programs {
        sandbox: copy(&take("sandbox")?, &folder.join("sandbox"))?,
        bench_tasks: take("bench-tasks")?,
        bench_proxy: take("bench-proxy")?,
        proxy: copy(&proxy, &folder.join("sandbox-proxy"))?,
    })
}

fn copy(from: &Path, to: &Path) -> Result<PathBuf> {
    fs::copy(from, to).with_context(|| format!("failed to copy {} to {}", from.display(), to.display()))?;
    Ok(to.to_path_buf())
}

fn measure_tasks(args: &BenchArgs, programs: &Programs, engine: &PrivateEngine) -> Result<Value> {
    let mut bench = command(&programs.bench_tasks, ["--engine", &engine.socket().url()]);
    bench.args(["--image", &BASE.reference()]);
    bench.arg("--sandbox").arg(&programs.sandbox).arg("--podman").arg(engine.client());
    bench.arg("--proxy-dir").arg(programs.proxy.parent().unwrap_or(Path::new(".")));
    bench.args(["--rounds", if args.quick { "5" } else { "20" }]);
    measured(&mut bench)
}

/// Measures in a separate network namespace, where the ports are free and there is no other
/// traffic.
fn measure_proxy(args: &BenchArgs, programs: &Programs) -> Result<Value> {
    apt::ensure(&[
        Needed { program: "unshare", package: "util-linux" },
        Needed { program: "ip", package: "iproute2" },
    ])?;
    // The addresses are local by a route: if an interface had them, the proxy would consider the
    // origin's address its own and refuse it.
    let script = "ip link set lo up && ip route add local 203.0.113.0/24 dev lo && exec \"$@\"";
    let separation: &[&str] = if process::is_root() { &["--net"] } else { &["--map-root-user", "--net"] };
    let mut bench = command("unshare", separation);
    bench.args(["sh", "-c", script, "sh"]).arg(&programs.bench_proxy);
    bench.arg("--program").arg(&programs.proxy);
    bench.args(["--origin", ORIGIN, "--listen", PROXY]);
    bench.args(args.quick.then_some("--quick"));
    measured(&mut bench)
}

fn measured(bench: &mut Command) -> Result<Value> {
    let text = process::output(bench)?;
    serde_json::from_str(&text).with_context(|| format!("{} printed no JSON", process::describe(bench)))
}

/// The properties of the machine on which the absolute numbers depend.
fn machine() -> Value {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        information.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    json!({"processor": model, "processors": processors, "kernel": kernel.trim()})
}
