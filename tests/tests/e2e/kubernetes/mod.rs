//! `sandbox render`: its manifests as kubectl reads them, and a task in the rendered pods.

mod kube_play;
mod manifests;
mod rendering;
