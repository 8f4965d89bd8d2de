//! Imports images from Debian tars into an engine, without a registry.

use anyhow::{Context, Result};

use super::http::Socket;
use crate::debian::Debian;
use crate::report::step;

/// An image that an engine needs.
pub(crate) struct Image {
    /// Without the prefix `localhost/`, which the engine adds, and without the tag, which is the
    /// suite.
    pub(crate) name: &'static str,
    pub(crate) debian: Debian,
}

/// The label that identifies images of an older package list.
const CONTENT_LABEL: &str = "sandbox.xtask.content";

impl Image {
    /// The full name in an engine.
    pub(crate) fn reference(&self) -> String {
        format!("localhost/{}:{}", self.name, self.debian.suite)
    }
}

/// Builds and imports the image unless the engine has it.
pub(crate) fn ensure_image(socket: &Socket, image: &Image) -> Result<()> {
    let reference = image.reference();
    let content = image.debian.monthly_key();
    if content_of(socket, &reference)?.as_deref() == Some(content.as_str()) {
        return Ok(());
    }
    let tar = image.debian.tar(image.name)?;
    step(&format!("importing {reference}"), || {
        let changes =
            format!("changes=LABEL%20{CONTENT_LABEL}%3D{content}&changes=CMD%20%5B%22%2Fbin%2Fbash%22%5D");
        let target = format!("/v4.0.0/libpod/images/import?reference={reference}&{changes}");
        socket
            .send_file("POST", &target, &tar)?
            .ok()
            .map(drop)
            .with_context(|| format!("failed to import {reference}"))
    })
}

fn content_of(socket: &Socket, reference: &str) -> Result<Option<String>> {
    let answer = socket.request("GET", &format!("/v4.0.0/libpod/images/{reference}/json"))?;
    if answer.status == 404 {
        return Ok(None);
    }
    let inspected: serde_json::Value =
        serde_json::from_str(&answer.ok()?).context("the engine's response is not JSON")?;
    Ok(inspected
        .pointer(&format!("/Labels/{CONTENT_LABEL}"))
        .and_then(|label| label.as_str())
        .map(str::to_owned))
}
