//! Fuzzes any answers of the engine.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox::fuzzing::engine_answer(data));
