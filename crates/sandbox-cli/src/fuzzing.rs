//! The target of the fuzzer: any configuration file. A violated property panics.
//!
//! Only compiled with the feature `fuzzing`, and in unit tests, which run every seed.

pub use crate::config::settings_document;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_passes() {
        fuzz_input::run_seeds("settings_document", 200, settings_document);
    }
}
