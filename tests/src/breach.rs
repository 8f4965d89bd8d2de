//! The mark of a test that saw an attack succeed.

/// Like `assert!`, for what a wall holds back: `$condition` is false only where an attack
/// succeeded. A panic that begins with `breach: ` fails the run for good, while any other failure
/// of a test gets a second try. A control, or that something works, is no such condition.
#[macro_export]
macro_rules! assert_held {
    ($condition:expr, $($message:tt)+) => {
        assert!($condition, "breach: {}", format_args!($($message)+))
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn panic_begins_with_the_mark() {
        let held = std::panic::catch_unwind(|| assert_held!(1 + 1 == 2, "{}", "unused"));
        assert!(held.is_ok());
        let panic =
            std::panic::catch_unwind(|| assert_held!(1 + 1 == 3, "{} of {}", std::hint::black_box(2), 3));
        let text = panic.expect_err("a breach").downcast::<String>().expect("a message");
        assert_eq!(*text, "breach: 2 of 3");
    }
}
