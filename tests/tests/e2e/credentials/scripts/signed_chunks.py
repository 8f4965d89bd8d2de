"""Uploads in signed chunks, like the S3 clients of Java, Go and .NET.

sys.argv = bucket, sizes in bytes of object and chunk. The head is signed by botocore; the chain of
chunk signatures follows the S3 manual. The object is uploaded with and without a signed trailer, in
writes whose boundaries differ from those of the chunks, and is read back each time.
"""

import base64
import hashlib
import hmac
import http.client
import os
import sys
import urllib.parse
import zlib

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

BUCKET, SIZE, CHUNK = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CONTENT = os.urandom(SIZE)
EMPTY = hashlib.sha256(b"").hexdigest()
PLAIN = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"

session = boto3.session.Session()
credentials = session.get_credentials().get_frozen_credentials()
region = session.region_name
endpoint = os.environ.get("S3_ENDPOINT", f"https://{BUCKET}.s3.{region}.amazonaws.com")


class Streaming(S3SigV4Auth):
    """Signs what botocore itself never sends."""

    def __init__(self, kind):
        super().__init__(credentials, "s3", region)
        self.kind = kind

    def payload(self, request):
        return self.kind


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256)


def signing_key(date):
    key = ("AWS4" + credentials.secret_key).encode()
    for part in (date, region, "s3", "aws4_request"):
        key = mac(key, part).digest()
    return key


def body(seed, timestamp, trailer):
    """The chunks, and the trailer if there is one."""
    date = timestamp[:8]
    key, scope = signing_key(date), f"{date}/{region}/s3/aws4_request"
    signature = seed
    for start in [*range(0, SIZE, CHUNK), SIZE]:
        data = CONTENT[start : start + CHUNK] if start < SIZE else b""
        parts = ["AWS4-HMAC-SHA256-PAYLOAD", timestamp, scope, signature, EMPTY, hashlib.sha256(data).hexdigest()]
        signature = mac(key, "\n".join(parts)).hexdigest()
        yield f"{len(data):x};chunk-signature={signature}\r\n".encode()
        if data:
            yield data + b"\r\n"
    if trailer:
        name, value = trailer
        digest = hashlib.sha256(f"{name}:{value}\n".encode()).hexdigest()
        signature = mac(key, "\n".join(["AWS4-HMAC-SHA256-TRAILER", timestamp, scope, signature, digest])).hexdigest()
        yield f"{name}:{value}\r\nx-amz-trailer-signature:{signature}\r\n".encode()
    yield b"\r\n"


def put(key, with_trailer, piece):
    crc = base64.b64encode(zlib.crc32(CONTENT).to_bytes(4, "big")).decode()
    trailer = ("x-amz-checksum-crc32", crc) if with_trailer else None
    kind = PLAIN + ("-TRAILER" if trailer else "")
    # Signatures are of one length, so that a draft shows how long the body will be.
    length = sum(map(len, body("0" * 64, "0" * 16, trailer)))
    request = AWSRequest("PUT", f"{endpoint}/{urllib.parse.quote(key)}")
    request.headers["x-amz-decoded-content-length"] = str(SIZE)
    request.headers["content-length"] = str(length)
    request.headers["content-encoding"] = "aws-chunked"
    if trailer:
        request.headers["x-amz-trailer"] = trailer[0]
    Streaming(kind).add_auth(request)
    seed = request.headers["authorization"].rsplit("Signature=", 1)[1]
    stream = b"".join(body(seed, request.context["timestamp"], trailer))
    url = urllib.parse.urlsplit(request.url)
    scheme = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = scheme(url.netloc, timeout=60)
    connection.putrequest("PUT", url.path, skip_accept_encoding=True)
    for name, value in request.headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    for start in range(0, len(stream), piece):
        connection.send(stream[start : start + piece])
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    print(key, answer.status, text[:300] if answer.status != 200 else "")
    return answer.status == 200


def same(key):
    s3 = boto3.client("s3", endpoint_url=os.environ.get("S3_CLIENT_ENDPOINT"))
    return s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == CONTENT


good = True
for name, with_trailer, piece in (
    ("chunks", False, 1 << 20),
    ("chunks in odd pieces", False, 4093),
    ("chunks+trailer", True, 1 << 20),
    ("chunks+trailer in odd pieces", True, 4093),
):
    good = put(name, with_trailer, piece) and same(name) and good
sys.exit(0 if good else 1)
