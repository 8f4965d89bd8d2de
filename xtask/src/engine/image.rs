//! Images from Debian tars, brought into an engine without a registry.

use anyhow::{Context, Result};

use super::http::Socket;
use crate::debian::Debian;
use crate::report::step;

/// An image that an engine shall have.
pub(crate) struct Image {
    /// Without the `localhost/` that the engine puts before it, and without a tag, which is the
    /// suite.
    pub(crate) name: &'static str,
    pub(crate) debian: Debian,
}

/// The label by which an image of an older package list is known.
const CONTENT_LABEL: &str = "sandbox.xtask.content";

impl Image {
    /// The full name, as an engine knows it.
    pub(crate) fn reference(&self) -> String {
        format!("localhost/{}:{}", self.name, self.debian.suite)
    }
}

/// Makes and imports the image unless the engine has it.
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
        serde_json::from_str(&answer.ok()?).context("the engine's answer is no JSON")?;
    Ok(inspected
        .pointer(&format!("/Labels/{CONTENT_LABEL}"))
        .and_then(|label| label.as_str())
        .map(str::to_owned))
}
