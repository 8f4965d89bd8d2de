# The first things that someone does with an archive, in a project whose allowlist has `allowed.example`.
set -eE -o pipefail
trap 'code=$?; echo "$AT: ended with $code"; exit $code' ERR

AT='the project'
mkdir -p project/.sandbox
cd project
echo 'domains: [allowed.example, api.anthropic.com]' > .sandbox/network-allowlist.yaml
cp ../upstream.yaml .sandbox/sandbox.yaml
echo "image: $IMAGE" >> .sandbox/sandbox.yaml
echo 'masked_secrets: {ANTHROPIC_API_KEY: {preset: anthropic}}' >> .sandbox/sandbox.yaml
export ANTHROPIC_API_KEY=sk-ant-any

AT='the programs'
for program in sandbox sandbox-proxy sandbox-inside; do
    test -x "$ARCHIVE/$program"
done
AT='the bill of materials'
grep CycloneDX "$ARCHIVE/sandbox.cdx.json"
AT='sandbox --version'
sandbox --version | grep -E '^sandbox [0-9]'
AT='sandbox trust'
sandbox trust
AT='sandbox doctor'
sandbox doctor
AT='sandbox run'
sandbox run -- curl -sS https://allowed.example/ | grep -x 'hello from allowed.example'
sandbox run -- curl -sS https://blocked.example/ | grep blocked_by_network_allowlist
AT='sandbox verify'
sandbox verify
AT='sandbox agent'
sandbox agent --agent-bin "$(command -v claude)" 'say something' | grep -x 'done as asked'
AT='the manual'
mkdir ../man
sandbox man ../man
test -s "$ARCHIVE/man/sandbox.1"
diff -r ../man "$ARCHIVE/man"
AT='completions'
. "$ARCHIVE/completions/sandbox.bash"
complete -p sandbox
sandbox completions bash | diff - "$ARCHIVE/completions/sandbox.bash"
sandbox completions zsh | diff - "$ARCHIVE/completions/_sandbox"
sandbox completions fish | diff - "$ARCHIVE/completions/sandbox.fish"
