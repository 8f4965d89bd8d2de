//! A WebSocket that sends every message back.

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::routes::{Body, text};

pub(super) fn accept(mut request: Request<Incoming>) -> Response<Body> {
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) else {
        let mut response = text("a WebSocket lives here\n");
        *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
        return response;
    };
    let accept = derive_accept_key(key.as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        while let Some(Ok(message)) = socket.next().await {
            let sent_back = message.is_text() || message.is_binary();
            if sent_back && socket.send(message).await.is_err() {
                return;
            }
        }
    });
    let mut response = text("");
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::try_from(accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}
