//! Fuzzes any output of the agent.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| claude_output::fuzzing::agent_stream(data));
