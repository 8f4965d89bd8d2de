"""Stands in for a cluster's API server, as far as `kubectl create --dry-run=client` asks one: it lists
kinds, and publishes their fields. It stores nothing.

It answers nothing about OpenAPI 3: where that names the parameter `fieldValidation`, kubectl leaves
the check of fields to the server, and a dry run of the client checks none.

sys.argv = a file of definitions from the package kubernetes-validate. Prints its port on loopback,
and ends with its stdin."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# By group and version: the kinds, and their names in paths.
KINDS = {
    "v1": {"ConfigMap": "configmaps", "Pod": "pods"},
    "batch/v1": {"Job": "jobs"},
    "networking.k8s.io/v1": {"NetworkPolicy": "networkpolicies"},
    "agents.x-k8s.io/v1beta1": {"Sandbox": "sandboxes"},
}
GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
# Our own description of the fields that we use, since no package publishes that of the project.
SANDBOX = {
    GROUP_VERSION_KIND: [{"group": "agents.x-k8s.io", "version": "v1beta1", "kind": "Sandbox"}],
    "type": "object",
    "properties": {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {"$ref": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
        "spec": {
            "type": "object",
            "required": ["podTemplate"],
            "properties": {
                "operatingMode": TEXT,
                "shutdownTime": TEXT,
                "shutdownPolicy": TEXT,
                "service": {"type": "boolean"},
                "podTemplate": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "metadata": {"type": "object", "properties": {"labels": TEXTS, "annotations": TEXTS}},
                        "spec": {"$ref": "io.k8s.api.core.v1.PodSpec"},
                    },
                },
            },
        },
    },
}


# The fields are published in protobuf only: messages of openapi.v2 in gnostic's OpenAPIv2.proto, whose
# numbers of fields these are.


def number(value):
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + number(rest) if rest else bytes([low])


def field(tag, content):
    content = content.encode() if isinstance(content, str) else content
    return number(tag << 3 | 2) + number(len(content)) + content


def named(name, content):
    return field(1, field(1, name) + field(2, content))


def type_of(schema):
    """The one type of a value. A number that may also be a text is published as a text."""
    if "oneOf" in schema:
        return "string"
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    return next((each for each in types if each != "null"), None)


def message(schema):
    """A message `Schema`."""
    if "$ref" in schema:
        return field(1, "#/definitions/" + schema["$ref"].rsplit("/", 1)[-1])
    parts = [field(19, name) for name in schema.get("required", [])]
    if isinstance(schema.get("additionalProperties"), dict):
        parts.append(field(21, field(1, message(schema["additionalProperties"]))))
    if type_of(schema):
        parts.append(field(22, field(1, type_of(schema))))
    if "items" in schema:
        parts.append(field(23, field(1, message(schema["items"]))))
    if "properties" in schema:
        properties = schema["properties"].items()
        parts.append(field(25, b"".join(named(name, message(of)) for name, of in properties)))
    if GROUP_VERSION_KIND in schema:
        yaml = field(2, json.dumps(schema[GROUP_VERSION_KIND]))
        parts.append(field(31, field(1, GROUP_VERSION_KIND) + field(2, yaml)))
    return b"".join(parts)


def document(definitions):
    """A message `Document`."""
    info = field(1, "Kubernetes") + field(2, "v0")
    schemas = b"".join(named(name, message(schema)) for name, schema in definitions.items())
    return field(1, "2.0") + field(2, info) + field(8, b"") + field(9, schemas)


def kinds(group_version):
    return [
        {"name": name, "singularName": kind.lower(), "kind": kind, "namespaced": True, "verbs": ["create"]}
        for kind, name in KINDS[group_version].items()
    ]


def group(group_version):
    name, version = group_version.split("/")
    version = {"groupVersion": group_version, "version": version}
    return {"name": name, "versions": [version], "preferredVersion": version}


def discovery():
    """The answers in JSON, by path."""
    groups = [each for each in KINDS if "/" in each]
    paths = {"/api": {"kind": "APIVersions", "versions": ["v1"]}}
    paths["/apis"] = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(each) for each in groups]}
    for each in KINDS:
        path = ("/apis/" if "/" in each else "/api/") + each
        paths[path] = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": each}
        paths[path]["resources"] = kinds(each)
    return paths


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/openapi/v2":
            self.answer(200, FIELDS, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
        elif path in DISCOVERY:
            self.answer(200, json.dumps(DISCOVERY[path]).encode(), "application/json")
        else:
            self.answer(404, b"{}", "application/json")

    def answer(self, status, body, content_type):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


with open(sys.argv[1], encoding="utf-8") as file:
    FIELDS = document(json.load(file)["$defs"] | {"x.agents.v1beta1.Sandbox": SANDBOX})
DISCOVERY = discovery()
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
