//! The place of a run in a trace.

/// The place of a run's span in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
    pub(crate) parent: Option<[u8; 8]>,
    /// Whether spans are recorded.
    pub(crate) is_sampled: bool,
}

impl TraceContext {
    /// The first span of a trace of its own. Both ids must be random.
    #[must_use]
    pub fn root(trace: [u8; 16], span: [u8; 8]) -> Self {
        Self { trace, span, parent: None, is_sampled: true }
    }

    /// A child of the span that `traceparent` names, in the form of W3C's Trace Context; `None` if it
    /// has another form, or an id is zero. The id must be random. Below a span that is not sampled
    /// there are no spans.
    #[must_use]
    pub fn child(traceparent: &str, span: [u8; 8]) -> Option<Self> {
        let parts: Vec<&str> = traceparent.split('-').collect();
        let [version, trace, parent, flags, rest @ ..] = &parts[..] else { return None };
        let [version] = hex(version)?;
        // Later versions may have more parts.
        if version == 0xff || (version == 0 && !rest.is_empty()) {
            return None;
        }
        let (trace, parent, [flags]) = (hex(trace)?, hex(parent)?, hex(flags)?);
        let is_set = trace != [0; 16] && parent != [0; 8];
        is_set.then_some(Self { trace, span, parent: Some(parent), is_sampled: flags & 1 == 1 })
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
        assert_eq!((&child.parent.unwrap()[..2], child.is_sampled), (&[0xb7, 0xad][..], true));
        let later = TraceContext::child(&format!("01{}00-later", &text[2..53]), [7; 8]).unwrap();
        assert_eq!((later.trace, later.parent, later.is_sampled), (child.trace, child.parent, false));
        for text in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b71692033311-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert_eq!(TraceContext::child(text, [7; 8]), None, "{text}");
        }
    }
}
