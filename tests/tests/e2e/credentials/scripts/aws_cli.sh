# Exercises S3 with the AWS CLI. $BUCKET and $BIG (the size of the large object in bytes) are given.
set -eu -o pipefail
cd "$(mktemp -d)"
head -c 1024 /dev/urandom > small
head -c "$BIG" /dev/urandom > big
aws s3 mb "s3://$BUCKET" > log
aws s3 cp small "s3://$BUCKET/small" > log
aws s3 cp "s3://$BUCKET/small" back > log
cmp small back; echo "ok: 1 KiB there and back"
aws s3 cp --no-progress big "s3://$BUCKET/big" > log
aws s3 cp --no-progress "s3://$BUCKET/big" back > log
cmp big back; echo "ok: many parts there and back"
aws s3 ls "s3://$BUCKET/" > listing
grep -q " $BIG big" listing; grep -q ' 1024 small' listing; echo "ok: list"
for key in 'with space' 'a+b' 'grüße/日本 語' 'x//y' "tilde~(1)&=,;:@\$!'*" '100%' '%2F' 'q?x=1#f'; do
    aws s3api put-object --bucket "$BUCKET" --key "$key" --body small > log
    aws s3api get-object --bucket "$BUCKET" --key "$key" back > log
    cmp small back
done
echo "ok: keys with special characters"
aws s3api put-object --bucket "$BUCKET" --key crc --body small --checksum-algorithm CRC32 > log
aws s3 cp "s3://$BUCKET/crc" back > log
cmp small back; echo "ok: a trailer with a checksum"
curl -sS --fail -o back "$(aws s3 presign "s3://$BUCKET/small")"
cmp small back; echo "ok: presigned get"
aws s3 rm "s3://$BUCKET/small" > log
aws s3 ls "s3://$BUCKET/" > listing
if grep -q ' small$' listing; then exit 1; fi; echo "ok: delete"
