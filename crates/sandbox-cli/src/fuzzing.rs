//! What the fuzzer runs: any configuration file. A property that does not hold is a panic.
//!
//! Only there with the feature `fuzzing`, and in unit tests, which run every seed.

pub use crate::config::settings_document;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_passes() {
        fuzz_input::run_seeds("settings_document", 200, settings_document);
    }
}
