//! The JSON Schema of `sandbox.yaml`, for editors. What the reader knows and this does not, or the other way round, fails a test.

use sandbox::credentials::Preset;
use serde_json::{Value, json};

use super::credentials::{SIGNING_PRESET, SIGNING_TYPE};

/// The schema, draft 2020-12. A value with the tag `!env` is a text for it.
pub(crate) fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": ".sandbox/sandbox.yaml",
        "description": "Settings of the `sandbox` command for one project. Every key may be left out; relative paths are relative to this file.",
        "type": "object",
        "additionalProperties": false,
        "properties": properties(),
        "allOf": [
            {"not": {"required": ["image", "dockerfile"]}},
            {"not": {"required": ["image", "context"]}}
        ],
        "$defs": {
            "text_or_env": {
                "type": "string",
                "description": "A text, or `!env NAME`: the variable NAME where the command runs, which must be set."
            },
            "scopes": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "Hosts that get the credential, `*` for any run of characters."
            },
            "masked_secret": masked_secret(),
            "signing_credential": signing_credential()
        }
    })
}

fn properties() -> Value {
    json!({
        "engine": {"type": "string", "pattern": "^unix://", "description": "Podman's socket."},
        "prefix": {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,31}$", "description": "What the names of all objects on the engine begin with."},
        "image": {"type": "string", "description": "An image that the engine has."},
        "dockerfile": {"type": "string", "description": "The file that the image is built from; default container/Dockerfile."},
        "context": {"type": "string", "description": "The folder that the Dockerfile copies from; default the Dockerfile's."},
        "build": build(),
        "env": {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/text_or_env"},
            "description": "Variables of the task."
        },
        "pass_env": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Variables that the task gets as they are where the command runs, if they are set."
        },
        "masked_secrets": {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/masked_secret"},
            "description": "Secrets that the task gets surrogates of, by the task's variable."
        },
        "signing_credentials": {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/signing_credential"},
            "description": "Keys that the task gets surrogates of, and that its requests are signed with anew, by any name."
        },
        "network_sandbox": {
            "type": "boolean",
            "default": true,
            "description": "Whether the task reaches only what network-allowlist.yaml permits."
        },
        "upstream": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "dns": {"type": "string", "description": "The name server, as in 192.0.2.53 or 192.0.2.53:5353; default the host's first."},
                "extra_roots": {"type": "string", "description": "A PEM file of authorities that are trusted beside the web's."},
                "allow_addresses": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Networks that may be reached although they are not public, as in 10.20.0.0/16."
                }
            }
        },
        "resource_limits": resource_limits(),
        "mounts": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Files and folders of this machine, as in ../data:/data:ro."
        },
        "workspace": {
            "enum": ["auto", "copy", "direct"],
            "description": "auto (default of `agent`): tasks work on a copy, and what is safe is applied when they are over; copy: the changes wait for `sandbox diff`, `apply` and `discard`; direct (default of `run`): tasks change the work tree itself."
        },
        "protect_workspace": {
            "type": "boolean",
            "default": true,
            "description": "Whether tasks are kept from writing what programs of this machine run on their own, such as git's hooks."
        },
        "protected_paths": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What is protected beside that: a name at any depth, or a path in the work tree."
        }
    })
}

fn build() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {
            "allowlist": {
                "type": "string",
                "description": "The allowlist of image builds; default build-allowlist.yaml. Without one, a build reaches nothing."
            },
            "network": {
                "const": "host",
                "description": "Build outside of the sandbox, on the network of the engine's host."
            }
        },
        "description": "What the RUN steps of an image build may reach."
    })
}

fn resource_limits() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "memory": {"type": ["string", "integer"], "description": "Bytes, as in 512m or 4g."},
            "cpus": {"type": "number", "minimum": 0.01, "maximum": 1024, "description": "Processors, as in 1.5."},
            "pids_limit": {"type": "integer", "minimum": 1, "description": "Processes and threads."},
            "disk": {
                "type": ["string", "integer"],
                "description": "Bytes that the container's own files may come to, as in 10g; needs an engine whose storage has quotas."
            },
            "timeout": {"type": "integer", "minimum": 1, "description": "Seconds."}
        }
    })
}

fn masked_secret() -> Value {
    let flag = |description: &str| json!({"type": "boolean", "description": description});
    let presets: Vec<&str> = Preset::ALL
        .iter()
        .map(|preset| preset.name())
        .filter(|name| *name != SIGNING_PRESET)
        .collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "value": {
                "$ref": "#/$defs/text_or_env",
                "description": "The secret; default `!env` with the name of the entry."
            },
            "preset": {"enum": presets, "description": "Fills in whatever is left out."},
            "scopes": {"$ref": "#/$defs/scopes"},
            "headers": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "Headers that carry it; `*` for any run of characters."
            },
            "basic_user": {
                "type": "string",
                "description": "In Basic credentials, the pattern that the other half must match; default any."
            },
            "allow_foreign_credentials": flag(
                "Whether these headers may also carry credentials of the task's own; default they are removed."
            ),
            "allow_plaintext": flag("Whether it may travel over plain HTTP."),
            "allow_echo": flag("Whether a response may show it to the task; default it is replaced by the surrogate there.")
        },
        "anyOf": [{"required": ["preset"]}, {"required": ["scopes", "headers"]}]
    })
}

fn signing_credential() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "type": {"const": SIGNING_TYPE, "description": "SigV4, and SigV4A with the same key."},
            "preset": {
                "const": SIGNING_PRESET,
                "description": "Fills in AWS's hosts and, where no part of the key is given, the usual variables."
            },
            "access_key_id": {"$ref": "#/$defs/text_or_env"},
            "secret_access_key": {"$ref": "#/$defs/text_or_env"},
            "session_token": {"$ref": "#/$defs/text_or_env"},
            "scopes": {"$ref": "#/$defs/scopes"},
            "allow_foreign_credentials": {
                "type": "boolean",
                "description": "Whether requests to these hosts may also carry credentials of the task's own, in Authorization, in presigned URLs or as session tokens; default they are removed."
            }
        },
        "anyOf": [
            {"required": ["preset"]},
            {"required": ["type", "access_key_id", "secret_access_key", "scopes"]}
        ],
        "dependentRequired": {
            "access_key_id": ["secret_access_key"],
            "secret_access_key": ["access_key_id"],
            "session_token": ["access_key_id"]
        }
    })
}

#[cfg(test)]
mod tests;
