# The sessions in the documents' pictures, each in its own terminal: from the package to the first
# answer, and from a blocked client to a policy. $IMAGE has the client.
mkdir -p ~/.config/sandbox project
cp upstream.yaml ~/.config/sandbox/sandbox.yaml
git init -q project
mv sandbox_*.deb project/
cat > type.sh <<'END'
stty columns 100 rows 22
type() {
    printf '\e[1;32m$\e[0m '
    for ((at = 0; at < ${#1}; at++)); do
        printf %s "${1:at:1}"
        sleep 0.03
    done
    echo
    eval "$1" || true
}
END
cat > first-answer.sh <<'END'
type "apt install ./$(echo sandbox_*.deb)"
type 'export ANTHROPIC_API_KEY=sk-ant-any'
type "sandbox agent 'Say in one sentence what a sandbox is good for.'"
sleep 5
END
cat > learnt-policy.sh <<'END'
type 'sandbox run -- pip install demo'
type 'sandbox run --audit -- pip install demo'
(sleep 3; echo y > ~/keys) &
type 'sandbox allowlist learn'
type 'sandbox run -- pip install demo'
sleep 5
END
record() {
    TERM=xterm-256color PATH=~/claude-code:$PATH script --quiet --return --log-out ~/$1.out --log-timing ~/$1.timing \
        --command "bash -e -c '. ~/type.sh; . ~/$1.sh'" <> ~/keys
}
mkfifo keys
cd project
# Suppress the parts of apt's output that depend on this machine.
export DEBIAN_FRONTEND=noninteractive APT_CONFIG=$HOME/apt.conf
echo 'quiet "1"; Dpkg::Progress-Fancy "0"; APT::Sandbox::User "root";' > "$APT_CONFIG"
record first-answer
rm sandbox_*.deb
mkdir .sandbox
cat > .sandbox/sandbox.yaml <<END
image: $IMAGE
env: {PIP_INDEX_URL: "https://pypi.test/simple", PIP_PROGRESS_BAR: "off", PIP_BREAK_SYSTEM_PACKAGES: "1", PIP_ROOT_USER_ACTION: ignore, PIP_DISABLE_PIP_VERSION_CHECK: "1"}
END
sandbox trust
# What the engine prints when it first uses an image does not belong in the picture.
sandbox run -- true
record learnt-policy
test "$(grep -c 'Successfully installed' ~/learnt-policy.out)" = 2
rm -r ~/.config/sandbox
