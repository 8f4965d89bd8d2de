//! Fuzz target: arbitrary bytes instead of a `ClientHello`. See `fuzzing`.

use std::sync::{Arc, LazyLock};

use fuzz_input::{Input, pieces};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, DnValue, IsCa, KeyPair};
use rustls::ServerConfig;
use sandbox_proxy_protocol::{PrivateKeyPem, ProxyAuthority};

use super::accept::{Handshake, server_config};
use super::leaf::LeafIssuer;
use crate::fuzzing::{Peer, run};

static CONFIG: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
    let issuer = LeafIssuer::new(&authority(), 16).unwrap_or_else(|error| panic!("{error}"));
    server_config(issuer).unwrap_or_else(|error| panic!("{error}"))
});

fn authority() -> ProxyAuthority {
    let mut params = CertificateParams::default();
    let name = DnValue::Utf8String("fuzzing".to_owned());
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let issuer = KeyPair::generate().and_then(|key| CertifiedIssuer::self_signed(params, key));
    let issuer = issuer.unwrap_or_else(|error| panic!("{error}"));
    ProxyAuthority {
        certificate_pem: issuer.pem(),
        private_key_pem: PrivateKeyPem::new(issuer.key().serialize_pem()),
    }
}

/// The first bytes choose how the others are split.
///
/// # Panics
///
/// If the split changes how the handshake ends, if it succeeds, or if a name is reported that is
/// not in the bytes.
pub fn client_hello(data: &[u8]) {
    let mut input = Input::new(data);
    let sizes = input.sizes();
    let bytes = input.rest();
    let whole = end(&[bytes]);
    assert_eq!(end(&pieces(bytes, &sizes)), whole, "the split changes the outcome");
    if let Some((Some(name), ..)) = whole {
        let there = bytes.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name.as_bytes()));
        assert!(there || name.is_empty() || name.len() > bytes.len(), "a name that was not sent");
    }
}

/// Name, alert, reason and distrust of a refusal; `None` for a client that is gone.
type End = Option<(Option<String>, String, Option<&'static str>, bool)>;

fn end(pieces: &[&[u8]]) -> End {
    match run(Handshake::with(Peer::new(pieces), Arc::clone(&CONFIG))) {
        Handshake::Accepted(_) => panic!("no handshake can finish without its secrets"),
        Handshake::Gone => None,
        Handshake::Refused(refusal) => Some((
            refusal.server_name,
            refusal.alert,
            refusal.reason.map(sandbox_proxy_protocol::BlockReason::as_str),
            refusal.distrust,
        )),
    }
}
