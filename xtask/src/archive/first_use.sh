# The first steps of a user who has installed the package, in a project whose allowlist has `allowed.example`.
set -eE -o pipefail
trap 'code=$?; echo "$AT: ended with $code"; exit $code' ERR

AT='the first answer'
mkdir -p ~/.config/sandbox repository
# The address of the internet, and nothing else.
cp upstream.yaml ~/.config/sandbox/sandbox.yaml
git init -q repository
(
    cd repository
    export ANTHROPIC_API_KEY=sk-ant-any
    PATH=~/claude-code:$PATH sandbox agent 'Say in one sentence what a sandbox is good for.' 2> ../said > ../answer || { cat ../said; exit 1; }
    cat ../said ../answer
    [ -s ../answer ] && [ "$(wc -l < ../said)" = 2 ] && [ "$(ls -A)" = .git ]
)
rm -r ~/.config/sandbox

AT='an engine that is not running'
(
    unset CONTAINER_HOST
    export XDG_RUNTIME_DIR=$HOME/runtime
    mkdir -m 700 "$XDG_RUNTIME_DIR"
    sandbox status > /dev/null 2> said || { cat said; exit 1; }
    grep "^engine: started podman's service" said
    sandbox status > /dev/null 2> said
    ! grep 'engine:' said
    # The service would end by itself, but later. Rootless, it is two processes, which end together.
    for process in /proc/[0-9]*; do
        command=$(tr '\0' ' ' < "$process/cmdline" 2> /dev/null) || continue
        case $command in
            *'podman system service '*"$XDG_RUNTIME_DIR/"*) kill "${process#/proc/}" || [ ! -e "$process" ] ;;
        esac
    done
)

AT='the project'
mkdir -p project/.sandbox
cd project
echo 'domains: [allowed.example, api.anthropic.com]' > .sandbox/network-allowlist.yaml
cp ../upstream.yaml .sandbox/sandbox.yaml
echo "image: $IMAGE" >> .sandbox/sandbox.yaml
echo 'masked_secrets: {ANTHROPIC_API_KEY: {preset: anthropic}}' >> .sandbox/sandbox.yaml
export ANTHROPIC_API_KEY=sk-ant-any
AT='sandbox --version'
sandbox --version | grep -E '^sandbox [0-9]'
AT='sandbox trust'
sandbox trust
AT='sandbox doctor'
sandbox doctor | tee ../doctor
grep 'all of one build' ../doctor
AT='sandbox run'
sandbox run -- curl -sS https://allowed.example/ | grep -x 'hello from allowed.example'
sandbox run -- curl -sS https://blocked.example/ | grep blocked_by_network_allowlist
AT='sandbox verify'
sandbox verify
AT='sandbox agent'
sandbox agent --agent-bin "$(command -v claude)" 'say something' | grep -x 'done as asked'

# The package and the archive install the same files, each at its standard path.
installed() {
    AT="the bill of materials and the licences in $1"
    grep CycloneDX "$1/share/doc/sandbox/sandbox.cdx.json"
    grep -A 99 '^tokio ' "$1/share/doc/sandbox/copyright" | grep '^zeroize '
    AT="the manual in $1"
    test -s "$1/share/man/man1/sandbox.1"
    for page in ../man/*; do
        cmp "$page" "$1/share/man/man1/${page##*/}"
    done
    AT="completions in $1"
    . "$1/share/bash-completion/completions/sandbox"
    complete -p sandbox
    sandbox completions bash | cmp - "$1/share/bash-completion/completions/sandbox"
    sandbox completions zsh | cmp - "$1/share/zsh/$2/_sandbox"
    sandbox completions fish | cmp - "$1/share/fish/vendor_completions.d/sandbox.fish"
}
mkdir ../man
sandbox man ../man
installed /usr vendor-completions
prefix="$HOME/a prefix"
mkdir -p "$prefix/share"
AT='install.sh over a file that it did not install'
mkdir "$prefix/bin"
echo mine > "$prefix/bin/sandbox"
! "$ARCHIVE/install.sh" --prefix "$prefix" || exit 1
grep mine "$prefix/bin/sandbox"
rm -r "$prefix/bin"
AT='install.sh'
for _ in first 'over the first'; do
    "$ARCHIVE/install.sh" --prefix "$prefix"
done
diff "$prefix/bin/sandbox" /usr/bin/sandbox
installed "$prefix" site-functions
AT='a program of another build'
echo >> "$prefix/libexec/sandbox/sandbox-inside"
! "$prefix/bin/sandbox" doctor > ../doctor
grep 'SHA256SUMS: `sandbox-inside`' ../doctor
AT='install.sh --uninstall'
"$prefix/libexec/sandbox/install.sh" --uninstall
[ "$(find "$prefix" | sort)" = "$prefix
$prefix/share" ]
