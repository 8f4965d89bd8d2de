//! The smallest HTTP server for the stand-in: plain HTTP/1.1, for fixtures and the demo.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http_body_util::BodyExt;
use http_body_util::StreamBody;
use hyper::Request;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::exchange::ApiRequest;
use super::exchange::ApiResponse;
use super::exchange::Step;
use super::script::Script;

/// Answers connections until the future is dropped. A connection that fails ends alone.
///
/// # Errors
///
/// When the listener can accept no more.
pub async fn serve(listener: TcpListener, script: Arc<Script>) -> io::Result<Infallible> {
    loop {
        let (stream, _) = listener.accept().await?;
        let script = Arc::clone(&script);
        tokio::spawn(async move {
            let service = service_fn(move |request| handle(Arc::clone(&script), request));
            // The client may leave at any time, and an `Abort` step ends a connection with an error
            // on purpose.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn handle(
    script: Arc<Script>,
    request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = io::Error>>, hyper::Error> {
    let request = read(request).await?;
    Ok(respond(script.answer(&request)))
}

async fn read(request: Request<Incoming>) -> Result<ApiRequest, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(ApiRequest {
        method: head.method.to_string(),
        path: head.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

fn respond(answer: ApiResponse) -> Response<impl hyper::body::Body<Data = Bytes, Error = io::Error>> {
    let frames = stream::iter(answer.body).filter_map(|step| async move {
        // hyper flushes only when a body has nothing ready, and an error throws away what is not
        // flushed.
        tokio::task::yield_now().await;
        match step {
            Step::Bytes(bytes) => Some(Ok(Frame::data(bytes))),
            Step::Pause(duration) => {
                tokio::time::sleep(duration).await;
                None
            }
            Step::Abort => Some(Err(io::Error::from(io::ErrorKind::ConnectionAborted))),
        }
    });
    let mut response = Response::new(StreamBody::new(frames));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::AsyncReadExt;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpStream;

    use super::*;

    /// What comes back for a prompt, as one text with the heads and the chunk sizes in it.
    async fn exchange(prompt: &str) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(Script::default())));
        let body = format!(r#"{{"stream":true,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#);
        let head = "POST /v1/messages HTTP/1.1\r\nhost: api\r\nconnection: close\r\ncontent-length: ";
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        server.abort();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_stream_ends_properly_unless_it_is_dropped() {
        for (prompt, status, ends) in [
            ("hello", "200 OK", true),
            ("scenario:rate-limit", "429 Too Many Requests", true),
            ("scenario:drop", "200 OK", false),
        ] {
            let answer = exchange(prompt).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{prompt}: {answer}");
            assert_eq!(answer.ends_with("\r\n0\r\n\r\n"), ends, "{prompt}: {answer}");
        }
    }
}
