//! The mark of a test that observed a successful attack.

/// Like `assert!`, for containment: `$condition` is false only if an attack succeeded. A panic that
/// begins with `breach: ` is final, while any other failed test gets a second try. Do not use it
/// for controls, or to assert that a feature works.
#[macro_export]
macro_rules! assert_held {
    ($condition:expr, $($message:tt)+) => {
        assert!($condition, "breach: {}", format_args!($($message)+))
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn failed_condition_panics_with_the_breach_mark() {
        let held = std::panic::catch_unwind(|| assert_held!(1 + 1 == 2, "{}", "unused"));
        assert!(held.is_ok());
        let panic =
            std::panic::catch_unwind(|| assert_held!(1 + 1 == 3, "{} of {}", std::hint::black_box(2), 3));
        let text = panic.expect_err("a breach").downcast::<String>().expect("a message");
        assert_eq!(*text, "breach: 2 of 3");
    }
}
