//! In what services differ when they check a signature.

/// How a path is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathRule {
    /// Encoded once, whatever the client did, and otherwise as it came.
    EncodedOnce,
    /// As it came, encoded once more.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the official vectors ask for it"))]
    EncodedTwice,
    /// Without dot segments and doubled slashes, then encoded once more.
    NormalizedAndEncodedTwice,
}

/// How one service reads signed requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// How paths are signed.
    pub(super) path: PathRule,
    /// Whether a presigned URL's body is not signed unless the request says otherwise.
    pub(super) presigned_body_is_unsigned: bool,
    /// Whether a presigned URL's session token is signed.
    pub(super) signs_query_token: bool,
}

impl Rules {
    /// The rules of the service with this signing name.
    pub(super) fn of(service: &str) -> Self {
        let is_s3 = matches!(service, "s3" | "s3express" | "s3-outposts" | "s3-object-lambda");
        Self {
            path: if is_s3 { PathRule::EncodedOnce } else { PathRule::NormalizedAndEncodedTwice },
            presigned_body_is_unsigned: is_s3,
            // Its clients add the token to a URL that is signed already.
            signs_query_token: service != "iotdevicegateway",
        }
    }
}
