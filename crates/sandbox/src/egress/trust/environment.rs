//! The variables that make each tool trust the files.
//!
//! Tools differ in what they read: some replace their CAs by the file and need the whole bundle,
//! some add the file to theirs and need only the root, some look into a folder, and a few read a
//! settings file.

use std::collections::BTreeMap;

use super::files::{self, TrustFiles};
use crate::egress::authority::RootAuthority;

/// The target of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The image's CAs and the root: the tool then knows no others.
    Bundle,
    /// The root only: the tool adds it. Old versions read only the first certificate of a file.
    Root,
    /// A folder with the root under its hashed name.
    Folder,
    /// The option that names a Java key store of the bundle.
    JavaOption,
    /// A folder of PHP settings, in addition to the folders that it reads anyway.
    PhpFolder,
}

/// One row per variable: its name, its target, its readers.
const VARIABLES: [(&str, Kind, &str); 20] = [
    (
        "SSL_CERT_FILE",
        Kind::Bundle,
        "OpenSSL, Python ssl, httpx, Go, uv, rustls-native-certs, .NET, Ruby, curl",
    ),
    ("SSL_CERT_DIR", Kind::Folder, "the same, where they look into a folder"),
    ("CURL_CA_BUNDLE", Kind::Bundle, "curl, requests, pip"),
    ("REQUESTS_CA_BUNDLE", Kind::Bundle, "requests, pip, the AWS and Google Cloud tools"),
    ("PIP_CERT", Kind::Bundle, "pip"),
    ("GIT_SSL_CAINFO", Kind::Bundle, "git, whose GnuTLS build reads nothing else"),
    ("NODE_EXTRA_CA_CERTS", Kind::Root, "Node, bun, Claude Code"),
    ("npm_config_cafile", Kind::Bundle, "npm, pnpm, yarn 1"),
    ("YARN_HTTPS_CA_FILE_PATH", Kind::Bundle, "yarn berry"),
    ("DENO_CERT", Kind::Root, "Deno"),
    ("CARGO_HTTP_CAINFO", Kind::Bundle, "cargo"),
    ("AWS_CA_BUNDLE", Kind::Bundle, "the AWS tools"),
    ("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", Kind::Bundle, "gcloud"),
    ("CONDA_SSL_VERIFY", Kind::Bundle, "conda"),
    ("HTTPLIB2_CA_CERTS", Kind::Bundle, "httplib2"),
    ("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", Kind::Bundle, "gRPC"),
    ("BUNDLE_SSL_CA_CERT", Kind::Bundle, "Bundler"),
    ("NIX_SSL_CERT_FILE", Kind::Bundle, "Nix and what it builds"),
    // Only the launcher of Java 9 and later reads `JDK_JAVA_OPTIONS`; every virtual machine reads
    // this one. Both make Java print a line on standard error, so the one with more readers is
    // used.
    ("JAVA_TOOL_OPTIONS", Kind::JavaOption, "Java"),
    ("PHP_INI_SCAN_DIR", Kind::PhpFolder, "PHP"),
];

/// Two tools that have no variable for a file, only one for their settings. Setting it hides the
/// user's own settings, so they are set only if the image has no bundle that these tools read
/// anyway.
const SETTINGS: [(&str, &str); 2] = [("WGETRC", files::WGETRC), ("APT_CONFIG", files::APT_CONFIG)];

/// The names of all variables that a container may get.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let files = VARIABLES.iter().map(|(name, ..)| *name);
    files.chain(SETTINGS.iter().map(|(name, _)| *name))
}

/// The variables of a container with `files`.
pub(in crate::egress) fn variables(files: &TrustFiles) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> =
        VARIABLES.iter().map(|(name, kind, _)| ((*name).to_owned(), value(files, *kind))).collect();
    if !files.image_has_bundle() {
        variables.extend(SETTINGS.map(|(name, file)| (name.to_owned(), files.in_container(file))));
    }
    variables
}

/// The files of a task without trust files of its image, by their names in [`files::FOLDER`], and its
/// variables. Java and PHP need files that only those have.
pub(in crate::egress) fn remote(
    root_pem: &str,
) -> (BTreeMap<&'static str, String>, BTreeMap<&'static str, String>) {
    let names = [files::ROOT, RootAuthority::HASHED_NAME];
    let path = |kind| match kind {
        Kind::Bundle | Kind::Root => Some(format!("{}/{}", files::FOLDER, files::ROOT)),
        Kind::Folder => Some(files::FOLDER.to_owned()),
        Kind::JavaOption | Kind::PhpFolder => None,
    };
    let variables = VARIABLES.iter().filter_map(|(name, kind, _)| Some((*name, path(*kind)?)));
    (names.map(|name| (name, root_pem.to_owned())).into(), variables.collect())
}

fn value(files: &TrustFiles, kind: Kind) -> String {
    match kind {
        Kind::Bundle => files.in_container(files::BUNDLE),
        Kind::Root => files.in_container(files::ROOT),
        Kind::Folder => files.in_container(files::HASHED),
        Kind::JavaOption => format!("-Djavax.net.ssl.trustStore={}", files.in_container(files::JAVA)),
        Kind::PhpFolder => format!(":{}", files.in_container(files::PHP)),
    }
}
