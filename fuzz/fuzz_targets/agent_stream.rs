//! Fuzzes any output of the agent.
#![no_main]

#[path = "../../crates/claude-output/tests/agent_stream.rs"]
mod agent_stream;

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_stream::agent_stream(data));
