//! Processor time, from `/proc`.

use std::time::Duration;

use anyhow::{Context, Result};

/// What a process leaves to others, such as the kernel's removal of its networks, takes less.
const AFTERMATH: Duration = Duration::from_millis(200);

/// Runs `work`; returns its result and the milliseconds of processor time that the whole machine used
/// from its start until 200 ms after its end.
///
/// # Errors
///
/// Those of `work`, or if `/proc` is unreadable.
pub async fn machine_milliseconds<T>(work: impl Future<Output = Result<T>>) -> Result<(T, f64)> {
    let before = machine()?;
    let result = work.await?;
    tokio::time::sleep(AFTERMATH).await;
    Ok((result, (machine()? - before) * 1e3))
}

/// Seconds of processor time that the process `id` used.
///
/// # Errors
///
/// If it does not exist.
pub fn process_seconds(id: u32) -> Result<f64> {
    let stat = read(&format!("/proc/{id}/stat"))?;
    // The name, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')').context("/proc has an unknown format")?;
    seconds(fields.split_whitespace().skip(11).take(2))
}

/// User and system time, of interrupts too.
fn machine() -> Result<f64> {
    let stat = read("/proc/stat")?;
    let fields = stat.split_whitespace().skip(1).take(7).enumerate();
    // The fourth and fifth field are idle time.
    seconds(fields.filter(|(at, _)| ![3, 4].contains(at)).map(|(_, field)| field))
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("failed to read {path}"))
}

fn seconds<'a>(ticks: impl Iterator<Item = &'a str>) -> Result<f64> {
    let mut sum = 0.0;
    for field in ticks {
        sum += field.parse::<f64>().context("/proc has an unknown format")?;
    }
    Ok(sum / f64::from(u32::try_from(rustix::param::clock_ticks_per_second())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn processor_time_of_work_is_counted_for_its_process_and_the_machine() {
        let id = std::process::id();
        let used = || process_seconds(id).unwrap();
        let begin = used();
        let work = async {
            while used() < begin + 0.1 {}
            Ok(())
        };
        let ((), machine) = machine_milliseconds(work).await.unwrap();
        assert!(machine >= 80.0, "{machine}");
    }
}
