//! Fuzzes any answers of the engine.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_podman::fuzzing::engine_answer(data));
