//! The place of a run in a trace.

/// The place of a run's span in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
    pub(crate) parent: Option<[u8; 8]>,
}

/// The value of `TRACEPARENT` is not a trace context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a trace context: write `00-<32 hexadecimal digits>-<16 hexadecimal digits>-<2>`")]
pub struct InvalidTraceParent;

impl TraceContext {
    /// The first span of a trace of its own. Both ids must be random.
    #[must_use]
    pub fn root(trace: [u8; 16], span: [u8; 8]) -> Self {
        Self { trace, span, parent: None }
    }

    /// A child of the span that `traceparent` names, in the form of W3C's Trace Context, version 00.
    /// The id must be random.
    ///
    /// # Errors
    ///
    /// If it has another form, or an id is zero.
    pub fn child(traceparent: &str, span: [u8; 8]) -> Result<Self, InvalidTraceParent> {
        let parts: Vec<&str> = traceparent.split('-').collect();
        let ["00", trace, parent, flags] = parts[..] else { return Err(InvalidTraceParent) };
        let _: [u8; 1] = hex(flags).ok_or(InvalidTraceParent)?;
        let (trace, parent) = (hex(trace).ok_or(InvalidTraceParent)?, hex(parent).ok_or(InvalidTraceParent)?);
        let is_set = trace != [0; 16] && parent != [0; 8];
        is_set.then_some(Self { trace, span, parent: Some(parent) }).ok_or(InvalidTraceParent)
    }
}

/// Lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_has_the_trace_and_the_parent_of_its_text() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let child = TraceContext::child(text, [7; 8]).unwrap();
        assert_eq!((child.trace[0], child.trace[15], child.span), (0x0a, 0x9c, [7; 8]));
        assert_eq!(child.parent.unwrap()[..2], [0xb7, 0xad]);
        for text in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b71692033311-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert_eq!(TraceContext::child(text, [7; 8]), Err(InvalidTraceParent), "{text}");
        }
    }
}
