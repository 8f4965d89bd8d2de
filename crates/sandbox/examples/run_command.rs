//! Runs a command that may reach one host, and prints its output and the network log.
//!
//! ```text
//! cargo run -p sandbox --example run_command -- ENGINE STATE_DIR PROXY_DIR IMAGE HOST COMMAND…
//! ```

use std::error::Error;
use std::io::Write as _;

use allowlist::Allowlist;
use sandbox::{CommandSpec, ImageSource, Input, Network, NetworkSandboxConfig, Sandbox, SandboxConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |name: &str| arguments.next().ok_or_else(|| format!("the argument {name} is missing"));
    let (engine, state_dir, proxy_dir) = (next("ENGINE")?.parse()?, next("STATE_DIR")?, next("PROXY_DIR")?);
    let (image, host) = (next("IMAGE")?, next("HOST")?);
    let command: Vec<String> = arguments.collect();

    let mut config = SandboxConfig::new(engine, &state_dir);
    config.proxy_dir = Some(proxy_dir.into());
    let sandbox = Sandbox::start(config).await?;

    let image = sandbox.ensure_image(&ImageSource::existing(image)).await?;
    let policy = Allowlist::from_yaml(&format!("domains: [{host}]"), "example")?;
    let command = sandbox.create_command(
        CommandSpec::new("example", image, command)
            .network(Network::Sandboxed(NetworkSandboxConfig::new(policy)))
            .network_log_dir(&state_dir),
    )?;
    let result = command.execute(Input::Empty).await?;

    let mut out = std::io::stdout();
    out.write_all(&result.stdout)?;
    writeln!(out, "exit code {}", result.exit_code)?;
    if let Some(log) = command.network_log() {
        write!(out, "{}", log.read_raw()?)?;
    }
    sandbox.shutdown().await?;
    Ok(())
}
