//! Fuzzes any configuration file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox_cli::fuzzing::settings_document(data));
