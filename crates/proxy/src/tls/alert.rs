//! Reports failed handshakes with the names of alerts in RFC 8446.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{AlertDescription, Error, InvalidMessage};

/// The only crypto provider.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The alert that `error` was answered with, or that the peer sent.
pub(super) fn alert_of(error: &Error) -> String {
    match error {
        Error::AlertReceived(alert) => name(*alert),
        Error::NoApplicationProtocol => "no_application_protocol".to_owned(),
        Error::PeerIncompatible(_) => "handshake_failure".to_owned(),
        Error::PeerMisbehaved(_) | Error::InvalidMessage(InvalidMessage::InvalidServerName) => {
            "illegal_parameter".to_owned()
        }
        Error::InvalidMessage(_) => "decode_error".to_owned(),
        Error::General(_) => "access_denied".to_owned(),
        _ => "internal_error".to_owned(),
    }
}

/// The TLS error within an I/O error.
pub(super) fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// The alert with which a peer ended a connection, if `error` comes from one: a client that does
/// not trust our authority may report that only after our side of the handshake is complete.
pub(crate) fn received_alert(error: &(dyn StdError + 'static)) -> Option<AlertDescription> {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(Error::AlertReceived(alert)) = current.downcast_ref::<Error>() {
            return Some(*alert);
        }
        // The `source` of an I/O error is that of the error within, so the error within would be
        // skipped.
        let within = current.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = within.map(|within| within as &(dyn StdError + 'static)).or_else(|| current.source());
    }
    None
}

/// Whether `alert` means that the peer does not trust the certificate it was shown.
pub(super) fn is_distrust(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
    )
}

/// `UnknownCA` → `unknown_ca`.
pub(super) fn name(alert: AlertDescription) -> String {
    let mut text = String::new();
    let mut after_lower = false;
    for letter in format!("{alert:?}").chars() {
        if letter.is_ascii_uppercase() && after_lower {
            text.push('_');
        }
        after_lower = letter.is_ascii_lowercase();
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alert_names_match_the_standard() {
        let cases = [
            (AlertDescription::UnknownCA, "unknown_ca"),
            (AlertDescription::BadCertificate, "bad_certificate"),
            (AlertDescription::NoApplicationProtocol, "no_application_protocol"),
            (AlertDescription::CloseNotify, "close_notify"),
        ];
        for (alert, text) in cases {
            assert_eq!(name(alert), text);
        }
    }

    #[test]
    fn alert_within_other_errors_is_found() {
        let error = io::Error::other(Error::AlertReceived(AlertDescription::UnknownCA));
        assert_eq!(received_alert(&error), Some(AlertDescription::UnknownCA));
        let nested = io::Error::other(error);
        assert_eq!(received_alert(&nested), Some(AlertDescription::UnknownCA));
        assert_eq!(received_alert(&io::Error::other("no TLS")), None);
    }
}
