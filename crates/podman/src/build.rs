//! Builds of images.
//!
//! Through podman's parameters of the Docker-compatible call, not through Docker's: podman ignores
//! Docker's `networkmode` unless it is `NetworkDisabled` (measured on 4.3.1 and 5.4.2: with `none`,
//! or the name of a network, a build is in the host's network).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::connection::{Engine, IMAGE_DEADLINE};
use crate::error::{Cause, EngineError, json_place, printable};
use crate::image::{check, plain_id};
use crate::libpod::{Call, escape};

const OPERATION: &str = "build image";
/// The oldest version of the Docker-compatible API; every podman since 4.0 serves it.
const TARGET: &str = "/v1.41/build";
/// Podman's own call, the only one that obeys the format of the image.
const OWN_TARGET: &str = "/v4.0.0/libpod/build";
/// Podman 4 grants these to the steps of a build, podman 5 does not.
const DROPPED: [&str; 3] = ["CAP_AUDIT_WRITE", "CAP_MKNOD", "CAP_NET_RAW"];

/// The network of a build's steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildNetwork {
    /// Loopback only.
    None,
    /// The network of the engine's host.
    Host,
    /// The network and process namespaces of a container: the steps end with it.
    Joined {
        /// The pid of the container's first process, in the engine's namespace.
        pid: u32,
        /// The only name server.
        dns: Ipv4Addr,
    },
}

/// An image to build.
#[derive(Debug, Clone)]
pub struct BuildRequest {
    /// The name of the image.
    pub tag: String,
    /// The context, with its `Dockerfile` at the top.
    pub tar: Bytes,
    /// Whether to repeat steps of earlier builds.
    pub no_cache: bool,
    /// Whether to create no intermediate images: they remain, without a name, while another image
    /// has the same layers.
    pub single_layer: bool,
    /// Whether all timestamps of the image are the Unix epoch: then equal content is the same
    /// image, regardless of its build time.
    pub timeless: bool,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
    /// The network of the steps.
    pub network: BuildNetwork,
    /// Folders of the host for `RUN --mount=type=bind,from=NAME`, by that name.
    pub folders: BTreeMap<String, PathBuf>,
    /// Parts of the Dockerfile that are not the author's, and their replacements in the output.
    pub shown_as: Vec<(String, String)>,
}

impl BuildRequest {
    /// A build without a network, folders or anything else outside the Dockerfile.
    pub fn new(tag: impl Into<String>, tar: Bytes, labels: BTreeMap<String, String>) -> Self {
        Self {
            tag: tag.into(),
            tar,
            no_cache: false,
            single_layer: false,
            timeless: false,
            labels,
            network: BuildNetwork::None,
            folders: BTreeMap::new(),
            shown_as: Vec::new(),
        }
    }

    fn shown(&self, text: &str) -> String {
        let replaced = |text: String, (own, shown): &(String, String)| text.replace(own, shown);
        self.shown_as.iter().fold(text.to_owned(), replaced)
    }

    fn query(&self, profile: Option<&str>) -> String {
        let mut query = vec![
            ("dockerfile", "Dockerfile".to_owned()),
            ("t", self.tag.clone()),
            ("nocache", self.no_cache.to_string()),
            ("layers", (!self.single_layer).to_string()),
            ("rm", "true".to_owned()),
            ("forcerm", "true".to_owned()),
            // A base image is pulled only if it is missing.
            ("pull", "false".to_owned()),
            ("labels", json!(self.labels).to_string()),
            ("dropcaps", json!(DROPPED).to_string()),
        ];
        if self.timeless {
            query.push(("timestamp", "0".to_owned()));
            // Docker's format contains the name of the build container.
            query.push(("outputformat", "application/vnd.oci.image.manifest.v1+json".to_owned()));
        }
        if let Some(profile) = profile {
            query.push(("securityopt", json!([format!("seccomp={profile}")]).to_string()));
        }
        match self.network {
            BuildNetwork::Host => {}
            BuildNetwork::None => {
                query.push(("networkmode", "NetworkDisabled".to_owned()));
                query.push(("nsoptions", json!([namespace("network", "")]).to_string()));
            }
            BuildNetwork::Joined { pid, dns } => {
                let joined = ["net", "pid"].map(|kind| format!("/proc/{pid}/ns/{kind}"));
                let [network, processes] = &joined;
                let both = json!([namespace("network", network), namespace("pid", processes)]);
                query.push(("nsoptions", both.to_string()));
                query.push(("dnsservers", json!([dns]).to_string()));
            }
        }
        if !self.folders.is_empty() {
            let folder = |path: &PathBuf| json!({"IsURL": false, "IsImage": false, "Value": path, "DownloadedCache": ""});
            let folders: BTreeMap<&String, Value> =
                self.folders.iter().map(|(name, path)| (name, folder(path))).collect();
            query.push(("additionalbuildcontexts", json!(folders).to_string()));
        }
        let pairs: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        pairs.join("&")
    }
}

fn namespace(name: &str, path: &str) -> Value {
    json!({"Name": name, "Host": false, "Path": path})
}

/// One line of the answer.
#[derive(Debug, Deserialize)]
struct BuildMessage {
    #[serde(default)]
    stream: String,
    #[serde(rename = "errorDetail")]
    error_detail: Option<ErrorDetail>,
    error: Option<String>,
    aux: Option<Aux>,
}

#[derive(Debug, Deserialize)]
struct ErrorDetail {
    message: String,
}

#[derive(Debug, Deserialize)]
struct Aux {
    #[serde(rename = "ID")]
    id: Option<String>,
}

impl Engine {
    /// Builds an image and returns its id; `on_line` receives each line of output. The steps run
    /// under the engine's [profile](Engine::with_seccomp_profile).
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if a step fails, or the build ends without an
    /// image.
    pub async fn build(
        &self,
        request: BuildRequest,
        on_line: &mut (dyn FnMut(&str) + Send),
    ) -> Result<String, EngineError> {
        let failed = |cause| EngineError::new(OPERATION, request.tag.as_str(), cause);
        check(OPERATION, &request.tag)?;
        let profile = self.seccomp_profile().map(|path| path.to_string_lossy());
        let target = if request.timeless { OWN_TARGET } else { TARGET };
        let target = format!("{target}?{}", request.query(profile.as_deref()));
        let call = Call {
            operation: OPERATION,
            object: &request.tag,
            method: Method::POST,
            path: String::new(),
            body: None,
            deadline: Some(IMAGE_DEADLINE),
        };
        let mut on_line = |line: &str| on_line(&request.shown(line));
        let mut lines = Lines::default();
        let mut id = None;
        let mut on_answer = |line: &[u8]| {
            if line.trim_ascii().is_empty() {
                return Ok(());
            }
            let message: BuildMessage =
                serde_json::from_slice(line).map_err(|error| Cause::Answer(json_place(&error)))?;
            let problem = message.error_detail.map(|detail| detail.message).or(message.error);
            if let Some(problem) = problem {
                return Err(Cause::Refused(printable(&request.shown(&problem))));
            }
            lines.push(&message.stream, &mut on_line);
            // Podman's own call prints the id in its last line.
            let printed = request.timeless.then(|| plain_id(message.stream.trim())).flatten();
            id = message.aux.and_then(|aux| aux.id).or(printed).or(id.take());
            Ok(())
        };
        self.libpod().stream(call, &target, request.tar.clone(), &mut on_answer).await?;
        lines.finish(&mut on_line);
        id.as_deref()
            .and_then(plain_id)
            .ok_or_else(|| failed(Cause::Answer("the build ended without an image".to_owned())))
    }
}

/// Joins the lines of a build's output, which arrive in pieces.
#[derive(Debug, Default)]
struct Lines {
    begun: String,
}

impl Lines {
    /// Longer lines are split here.
    const LONGEST: usize = 64 * 1024;

    fn push(&mut self, piece: &str, on_line: &mut (dyn FnMut(&str) + Send)) {
        let mut rest = piece;
        while let Some((end, after)) = rest.split_once('\n') {
            self.begun.push_str(end);
            on_line(self.begun.trim_end_matches('\r'));
            self.begun.clear();
            rest = after;
        }
        self.begun.push_str(rest);
        if self.begun.len() > Self::LONGEST {
            on_line(&std::mem::take(&mut self.begun));
        }
    }

    fn finish(&mut self, on_line: &mut (dyn FnMut(&str) + Send)) {
        if !self.begun.is_empty() {
            on_line(&std::mem::take(&mut self.begun));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_from_pieces() {
        let mut seen = Vec::new();
        let mut on_line = |line: &str| seen.push(line.to_owned());
        let mut lines = Lines::default();
        for piece in ["STEP 1", "/2: FROM x\nSTEP 2/2\r\n", "", "\nlast"] {
            lines.push(piece, &mut on_line);
        }
        lines.finish(&mut on_line);
        assert_eq!(seen, ["STEP 1/2: FROM x", "STEP 2/2", "", "last"]);
    }

    #[test]
    fn piece_with_very_many_lines_is_split_in_linear_time() {
        let mut count = 0;
        let mut on_line = |_: &str| count += 1;
        // If each line copied the rest, this would take minutes.
        Lines::default().push(&"\n".repeat(1 << 20), &mut on_line);
        assert_eq!(count, 1 << 20);
    }

    #[test]
    fn query_selects_the_namespaces_of_the_steps() {
        let query = |network| {
            let request =
                BuildRequest { network, ..BuildRequest::new("localhost/x:1", Bytes::new(), BTreeMap::new()) };
            request.query(Some("/state/filter.json"))
        };
        let none = query(BuildNetwork::None);
        assert!(none.contains("networkmode=NetworkDisabled&nsoptions="), "{none}");
        assert!(none.contains(&escape(r#"["seccomp=/state/filter.json"]"#)), "{none}");
        assert!(!query(BuildNetwork::Host).contains("nsoptions"));
        let joined = query(BuildNetwork::Joined { pid: 7, dns: Ipv4Addr::new(10, 0, 0, 2) });
        let both = r#"[{"Host":false,"Name":"network","Path":"/proc/7/ns/net"},{"Host":false,"Name":"pid","Path":"/proc/7/ns/pid"}]"#;
        assert!(joined.contains(&escape(both)), "{joined}");
        assert!(joined.contains(&escape(r#"["10.0.0.2"]"#)), "{joined}");
    }
}
