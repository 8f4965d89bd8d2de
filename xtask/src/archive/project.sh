# Runs before the commands of every block: creates a project with a committed file and a trusted configuration.
set -eE -o pipefail

# Projects reach the demo's internet with every configuration that a block writes. A function, since a block may change PATH.
sandbox() {
    if [ -d .sandbox ] && ! grep -qs '^upstream:' .sandbox/sandbox.yaml; then
        cat ~/upstream.yaml >> .sandbox/sandbox.yaml
    fi
    command sandbox "$@"
}
ended_with() {
    [ "$code" = "$1" ] || { echo "$AT: ended with $code, not with $1"; exit 1; }
}
at_end() {
    [ -z "$(jobs -p)" ] || { command sandbox stop --all; wait; }
}
AT=preparation
trap 'code=$?; echo "$AT: ended with $code"; exit $code' ERR
trap 'code=$?; trap - ERR; set +e; at_end > /dev/null 2>&1; exit $code' EXIT

cat > ~/.gitconfig <<'END'
[user]
name = Reader
email = reader@example.test
[init]
defaultBranch = main
END
cd "$(mktemp -d ~/XXXXXX)"
git init -q your-project
cd your-project
echo 'A project' > README
git add README
git commit -q -m first
mkdir .sandbox
echo 'image: localhost/debian:bookworm' > .sandbox/sandbox.yaml
echo 'domains: [api.anthropic.com, api.github.com, api.openai.com]' > .sandbox/network-allowlist.yaml
export ANTHROPIC_API_KEY=sk-ant-any CODEX_API_KEY=sk-any GH_TOKEN=ghp_any
sandbox trust
