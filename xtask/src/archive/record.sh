# The session in the README's picture, in its own terminal: from the package to the first answer.
mkdir -p ~/.config/sandbox project
cp upstream.yaml ~/.config/sandbox/sandbox.yaml
git init -q project
mv sandbox_*.deb project/
cat > typed.sh <<'END'
stty columns 100 rows 22
type() {
    printf '\e[1;32m$\e[0m '
    for ((at = 0; at < ${#1}; at++)); do
        printf %s "${1:at:1}"
        sleep 0.03
    done
    echo
    eval "$1"
}
type "apt install ./$(echo sandbox_*.deb)"
type 'export ANTHROPIC_API_KEY=sk-ant-any'
type "sandbox agent 'Say in one sentence what a sandbox is good for.'"
sleep 5
END
cd project
# Suppress the parts of apt's output that depend on this machine.
export DEBIAN_FRONTEND=noninteractive APT_CONFIG=$HOME/apt.conf
echo 'quiet "1"; Dpkg::Progress-Fancy "0"; APT::Sandbox::User "root";' > "$APT_CONFIG"
TERM=xterm-256color PATH=~/claude-code:$PATH script --quiet --return --log-out ../out --log-timing ../timing --command 'bash -e ../typed.sh' < /dev/null
rm -r ~/.config/sandbox
