//! What is said between whoever verifies a sandbox and the probe that does it from inside.
//!
//! The probe gets an [`Order`] as its only argument: which checks to make, and what was promised. It prints one [`Finding`] a check, one
//! JSON object a line. [`PROMISES`] says of each check what it stands for and what to do when it does not hold.
//!
//! ```
//! use sandbox_verify_probe::{Category, PROMISES, promise};
//!
//! assert_eq!(promise("capabilities").map(|promise| promise.category), Some(Category::Rights));
//! assert!(PROMISES.iter().all(|promise| !promise.mend.is_empty()));
//! ```

mod finding;
mod order;
mod promise;

pub use finding::Finding;
pub use order::{Order, ProcessLimit, Scratch};
pub use promise::{Category, PROMISES, Promise, promise};
