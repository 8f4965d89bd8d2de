//! Runs shell lines one after the other in one untrusted container, and prints their results.
//!
//! ```text
//! cargo run -p sandbox --example run_executor -- ENGINE STATE_DIR PROXY_DIR IMAGE LINE…
//! ```

use std::error::Error;
use std::io::Write as _;
use std::time::Duration;

use sandbox::executor::{ExecOptions, ExecutorConfig};
use sandbox::{ImageSource, Sandbox, SandboxConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |name: &str| arguments.next().ok_or_else(|| format!("the argument {name} is missing"));
    let (engine, state_dir, proxy_dir) = (next("ENGINE")?.parse()?, next("STATE_DIR")?, next("PROXY_DIR")?);
    let image = next("IMAGE")?;

    let mut config = SandboxConfig::new(engine, &state_dir);
    config.proxy_dir = Some(proxy_dir.into());
    let sandbox = Sandbox::start(config.on_demand()).await?;
    let image = sandbox.ensure_image(&ImageSource::existing(image)).await?;
    let executor = sandbox.create_executor(ExecutorConfig::new("example", image))?;
    for line in arguments {
        let options = ExecOptions { timeout: Some(Duration::from_mins(20)), ..ExecOptions::default() };
        let result = executor.execute(line, options).await?;
        std::io::stdout().write_all(&result.stdout)?;
        std::io::stderr().write_all(&result.stderr)?;
        writeln!(std::io::stdout(), "exit code {}", result.exit_code)?;
    }
    executor.cleanup().await?;
    sandbox.shutdown().await?;
    Ok(())
}
