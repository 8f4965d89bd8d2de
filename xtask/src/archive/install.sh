#!/bin/sh
# Installs what lies beside this script, and removes it again.
set -eu

usage() {
    cat <<'END'
Usage: install.sh [--prefix DIR] [--uninstall]

Installs sandbox: programs, manual pages, completions and documents.

  --prefix DIR   install into DIR instead of ~/.local
  --uninstall    remove what was installed there; the installed copy,
                 DIR/libexec/sandbox/install.sh, does so too.
                 Before, `sandbox clean --all` removes images and state
END
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

# The folders and files that were made, in the order in which they were.
LIST=libexec/sandbox/installed

# Folders last, and only those that this script made and that nobody else uses.
uninstall() {
    while IFS= read -r name; do
        case $name in */) ;; *) rm -f -- "$prefix/$name" ;; esac
    done < "$prefix/$LIST"
    folders=$(grep '/$' "$prefix/$LIST" | sort -r)
    rm -f -- "$prefix/$LIST"
    printf '%s\n' "$folders" | while IFS= read -r name; do
        [ -z "$name" ] || rmdir -- "$prefix/$name" 2>/dev/null || true
    done
}

here=$(cd -- "$(dirname -- "$0")" && pwd -P)
prefix=
remove=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -ge 2 ] || fail '--prefix needs a folder'; prefix=$2; shift ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        --uninstall) remove=yes ;;
        -h | --help) usage; exit ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
if [ -z "$prefix" ]; then
    # The installed copy knows where it is.
    if [ -e "$here/installed" ]; then
        prefix=$(cd -- "$here/../.." && pwd -P)
    else
        prefix=$HOME/.local
    fi
fi

if [ -n "$remove" ]; then
    [ -e "$prefix/$LIST" ] || fail "nothing was installed into $prefix"
    prefix=$(cd -- "$prefix" && pwd -P)
    uninstall
    echo "removed sandbox from $prefix"
    exit
fi

[ -x "$here/bin/sandbox" ] || fail "there is nothing to install beside $0"
# The new files are run once before any old one goes.
version=$("$here/bin/sandbox" --version) || fail "the programs in $here do not run on this machine"
mkdir -p -- "$prefix"
prefix=$(cd -- "$prefix" && pwd -P)
[ ! -e "$prefix/$LIST" ] || uninstall
list=$(mktemp)
trap 'rm -f -- "$list"' EXIT
cd "$here"
find bin libexec share -type d | sort | while IFS= read -r folder; do
    [ -d "$prefix/$folder" ] || { mkdir -m 755 -- "$prefix/$folder"; echo "$folder/" >> "$list"; }
done
{ find bin libexec share -type f | sort; echo libexec/sandbox/install.sh; } >> "$list"
# First of the files: what is not finished can be removed too.
install -m 644 -- "$list" "$prefix/$LIST"
grep -v '/$' "$list" | while IFS= read -r file; do
    from=$file mode=644
    [ "$file" != libexec/sandbox/install.sh ] || from=install.sh
    [ ! -x "$from" ] || mode=755
    install -m "$mode" -- "$from" "$prefix/$file"
done

echo "installed $version into $prefix; $prefix/libexec/sandbox/install.sh --uninstall removes it"
case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
