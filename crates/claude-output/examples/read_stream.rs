//! Prints the reply and the token counts of a recorded run.
//!
//! ```text
//! cargo run -p claude-output --example read_stream [FILE]
//! ```

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::path::PathBuf;

use claude_output::EventKind;
use claude_output::EventParser;
use claude_output::ParsedLine;
use claude_output::StreamEvent;
use claude_output::extract_error_summary;
use claude_output::extract_response_text;
use claude_output::extract_result_summary;

fn main() -> Result<(), Box<dyn Error>> {
    let recorded = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tool-use.jsonl"));
    let path = std::env::args_os().nth(1).map_or_else(recorded, PathBuf::from);
    let mut out = std::io::stdout();

    let mut parser = EventParser::new();
    let mut events = Vec::new();
    let mut file = File::open(path)?;
    let mut buffer = [0; 4096];
    loop {
        let read = file.read(&mut buffer)?;
        let lines = if read == 0 {
            parser.finish().into_iter().collect()
        } else {
            parser.push(buffer.get(..read).unwrap_or_default())
        };
        for event in lines.into_iter().filter_map(ParsedLine::into_event) {
            show(&event, &mut out)?;
            events.push(event);
        }
        if read == 0 {
            break;
        }
    }

    writeln!(out, "reply: {}", extract_response_text(&events))?;
    if let Some(usage) = extract_result_summary(&events).and_then(|summary| summary.usage) {
        writeln!(out, "usage: {} tokens in, {} tokens out", usage.input_tokens, usage.output_tokens)?;
    }
    if let Some(error) = extract_error_summary(&events, "") {
        writeln!(out, "error: {error}")?;
    }
    Ok(())
}

/// Shows progress during the run.
fn show(event: &StreamEvent, out: &mut impl Write) -> std::io::Result<()> {
    match event.kind() {
        EventKind::System(system) => match &system.init {
            Some(init) => writeln!(out, "model: {}", init.model.as_deref().unwrap_or("unknown")),
            None => Ok(()),
        },
        EventKind::Assistant(message) => message.texts().try_for_each(|text| writeln!(out, "> {text}")),
        _ => Ok(()),
    }
}
