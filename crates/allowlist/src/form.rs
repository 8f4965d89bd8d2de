//! The form of a request body, as declared by its head.

/// The form of a request body, as declared by its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// JSON in UTF-8, declared by one Content-Type.
    #[default]
    Json,
    /// `multipart/form-data`, declared by one Content-Type.
    Multipart,
    /// An upgrade to WebSocket.
    WebSocket,
    /// Anything else, or an ambiguous declaration.
    Other,
}

impl Form {
    /// Reads the Content-Type headers of a request. JSON that declares another encoding does not
    /// count as JSON: a server could decode it differently.
    pub fn of<'a>(content_types: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut content_types = content_types.into_iter();
        let (Some(content_type), None) = (content_types.next(), content_types.next()) else {
            return Self::Other;
        };
        let text = String::from_utf8_lossy(content_type).to_ascii_lowercase();
        let mut parts = text.split(';').map(str::trim);
        let utf8 = |part: &str| matches!(part, "" | "charset=utf-8" | "charset=\"utf-8\"" | "charset=utf8");
        match parts.next() {
            Some("application/json") if parts.all(utf8) => Self::Json,
            Some("multipart/form-data") => Self::Multipart,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let expected: [(&[&[u8]], Form); 12] = [
            (&[b"application/json"], Form::Json),
            (&[b"Application/JSON ; charset=UTF-8"], Form::Json),
            (&[b"Multipart/Form-Data; boundary=x"], Form::Multipart),
            (&[], Form::Other),
            (&[b""], Form::Other),
            (&[b"text/plain"], Form::Other),
            (&[b"application/x-www-form-urlencoded"], Form::Other),
            (&[b"application/x-protobuf"], Form::Other),
            (&[b"application/json; charset=utf-7"], Form::Other),
            (&[b"application/json", b"application/json"], Form::Other),
            (&[b"application/json, text/plain"], Form::Other),
            (&[b"application/json\xff"], Form::Other),
        ];
        for (content_types, form) in expected {
            assert_eq!(Form::of(content_types.iter().copied()), form, "{content_types:?}");
        }
    }
}
