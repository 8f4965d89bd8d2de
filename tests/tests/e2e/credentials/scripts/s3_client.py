"""Exercises S3 with boto3: sys.argv = bucket, size of the large object in bytes."""

import io
import os
import sys
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

BUCKET, BIG = sys.argv[1], int(sys.argv[2])
# By default, this boto3 presigns URLs for the global host.
endpoint = f"https://s3.{os.environ['AWS_DEFAULT_REGION']}.amazonaws.com"
config = Config(signature_version="s3v4", s3={"addressing_style": "virtual"}, retries={"total_max_attempts": 1})
s3 = boto3.client("s3", endpoint_url=endpoint, config=config)
small, big = os.urandom(1024), os.urandom(BIG)


def read(key):
    return s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def check(what, good):
    print("ok:" if good else "FAILED:", what, flush=True)
    if not good:
        sys.exit(1)


s3.create_bucket(Bucket=BUCKET)
s3.put_object(Bucket=BUCKET, Key="small", Body=small)
check("1 KiB there and back", read("small") == small)

s3.upload_fileobj(io.BytesIO(big), BUCKET, "big", Config=TransferConfig(multipart_threshold=8 << 20, multipart_chunksize=8 << 20))
check("many parts there and back", read("big") == big)

found = {entry["Key"]: entry["Size"] for entry in s3.list_objects_v2(Bucket=BUCKET, Prefix="")["Contents"]}
check("list", found.get("small") == 1024 and found.get("big") == BIG)
page = s3.list_objects_v2(Bucket=BUCKET, Prefix="sm", Delimiter="/", MaxKeys=1)
check("list with a query", [entry["Key"] for entry in page["Contents"]] == ["small"])

for key in ("with space", "a+b", "grüße/日本 語", "x//y", "tilde~(1)&=,;:@$!'*", "100%", "%2F", "q?x=1#f"):
    s3.put_object(Bucket=BUCKET, Key=key, Body=small)
    check(f"key {key}", read(key) == small)

s3.put_object(Bucket=BUCKET, Key="crc", Body=io.BytesIO(big), ChecksumAlgorithm="CRC32")
check("a trailer with a checksum", read("crc") == big)

s3.put_object(Bucket=BUCKET, Key="meta", Body=small, Metadata={"spaces": "a  b   c", "empty": ""}, ContentType="text/plain; a=b")
check("metadata with spaces", read("meta") == small)


def presigned(method, key, **more):
    return s3.generate_presigned_url(method, Params={"Bucket": BUCKET, "Key": key, **more}, ExpiresIn=300)


put = urllib.request.Request(presigned("put_object", "presigned + ü"), data=small, method="PUT")
check("presigned put", urllib.request.urlopen(put).status == 200)
get = presigned("get_object", "presigned + ü", ResponseContentType="text/x; y=z")
check("presigned get", urllib.request.urlopen(get).read() == small)

s3.delete_object(Bucket=BUCKET, Key="small")
left = [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
check("delete", "small" not in left and "big" in left)
s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "big"}, {"Key": "crc"}]})
left = [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
check("delete of many", "big" not in left and "crc" not in left)
