//! Differences between services in checking a signature.

/// How a path is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathRule {
    /// Encoded once, however the client encoded it, and otherwise as received.
    EncodedOnce,
    /// As received, encoded once more.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the official vectors need it"))]
    EncodedTwice,
    /// Without dot segments and repeated slashes, then encoded once more.
    NormalizedAndEncodedTwice,
}

/// How a service reads signed requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// How paths are signed.
    pub(super) path: PathRule,
    /// Whether the body of a presigned URL is unsigned unless the request states otherwise.
    pub(super) presigned_body_is_unsigned: bool,
    /// Whether the session token of a presigned URL is signed.
    pub(super) signs_query_token: bool,
}

impl Rules {
    /// The rules of the service with this signing name.
    pub(super) fn of(service: &str) -> Self {
        let is_s3 = matches!(service, "s3" | "s3express" | "s3-outposts" | "s3-object-lambda");
        Self {
            path: if is_s3 { PathRule::EncodedOnce } else { PathRule::NormalizedAndEncodedTwice },
            presigned_body_is_unsigned: is_s3,
            // Clients of this service add the token to a URL that is already signed.
            signs_query_token: service != "iotdevicegateway",
        }
    }
}
