#!/bin/sh
# Installs the files next to this script, and uninstalls them.
set -eu
unset CDPATH
export LC_ALL=C

usage() {
    cat <<'END'
Usage: install.sh [--prefix DIR] [--uninstall]

Installs sandbox: programs, manual pages, completions and documents.

  --prefix DIR   install into DIR instead of ~/.local
  --uninstall    remove the installed files; the installed copy,
                 DIR/libexec/sandbox/install.sh, can do this too.
                 Run `sandbox clean --all` first to remove images and state
END
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

# The list of created folders, each with a slash, and then of created files.
LIST=libexec/sandbox/installed

# Prints the list of the files installed into the prefix, if this user may remove them.
installed() {
    [ -e "$prefix/$LIST" ] || return 0
    if [ "$(id -u)" = 0 ] && [ "$(stat -c %u -- "$prefix/$LIST")" != 0 ]; then
        fail "$prefix/$LIST is not owned by root; uninstall as the user who installed it"
    fi
    if grep -qE '^/|(^|/)\.\.(/|$)' "$prefix/$LIST"; then
        fail "$prefix/$LIST lists a path outside of $prefix"
    fi
    cat "$prefix/$LIST"
}

# Removes the files that standard input lists, and the folders that are empty then.
remove() {
    sort -r | while IFS= read -r name; do
        case $name in
            */) rmdir -- "$prefix/$name" 2>/dev/null || true ;;
            *) rm -f -- "$prefix/$name" ;;
        esac
    done
}

here=$(cd -- "$(dirname -- "$0")" && pwd -P)
prefix=
uninstall=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ -n "${2-}" ] || fail '--prefix requires a folder'; prefix=$2; shift ;;
        --prefix=?*) prefix=${1#--prefix=} ;;
        --uninstall) uninstall=yes ;;
        -h | --help) usage; exit ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
if [ -z "$prefix" ]; then
    # The installed copy is in its prefix.
    if [ -e "$here/installed" ]; then prefix=$here/../..; else prefix=$HOME/.local; fi
fi

if [ -n "$uninstall" ]; then
    [ -e "$prefix/$LIST" ] || fail "nothing was installed into $prefix"
    prefix=$(cd -- "$prefix" && pwd -P)
    old=$(installed)
    rm -f -- "$prefix/$LIST"
    printf '%s\n' "$old" | remove
    echo "removed sandbox from $prefix"
    exit
fi

[ -x "$here/bin/sandbox" ] || fail "there is nothing to install next to $0"
# Run the new programs once before an old one is removed.
version=$("$here/bin/sandbox" --version) || fail "the programs in $here do not run on this machine"
mkdir -p -- "$prefix"
prefix=$(cd -- "$prefix" && pwd -P)
[ "$prefix" != "$here" ] || fail 'the prefix must not be the folder of the archive'
old=$(installed)
was_installed() { printf '%s\n' "$old" | grep -qxF -- "$1"; }
cd "$here"
files=$(find bin libexec share -type f | sort; echo libexec/sandbox/install.sh)
printf '%s\n' "$files" | while IFS= read -r file; do
    if [ -d "$prefix/$file" ] || { [ -e "$prefix/$file" ] || [ -L "$prefix/$file" ]; } && ! was_installed "$file"; then
        fail "$prefix/$file exists and was not installed by this script; remove it, or choose another --prefix"
    fi
done
folders=$(find bin libexec share -type d | sort | while IFS= read -r folder; do
    if [ ! -d "$prefix/$folder" ] || was_installed "$folder/"; then echo "$folder/"; fi
done)
# Write the list first, so that an incomplete installation can be removed too.
mkdir -p -- "$prefix/libexec/sandbox"
printf '%s\n' "$old" "$folders" "$files" | sed '/^$/d' | sort -u > "$prefix/$LIST.new"
mv -f -- "$prefix/$LIST.new" "$prefix/$LIST"
printf '%s\n' "$folders" | sed '/^$/d' | while IFS= read -r folder; do
    mkdir -p -m 755 -- "$prefix/$folder"
done
printf '%s\n' "$files" | while IFS= read -r file; do
    from=$file mode=644
    [ "$file" != libexec/sandbox/install.sh ] || from=install.sh
    [ ! -x "$from" ] || mode=755
    # A running program keeps the old file.
    install -m "$mode" -- "$from" "$prefix/$file.new"
    mv -f -- "$prefix/$file.new" "$prefix/$file"
done
# Remove files that only the previous version had.
printf '%s\n' "$old" | sed '/^$/d' | while IFS= read -r name; do
    printf '%s\n' "$folders" "$files" | grep -qxF -- "$name" || echo "$name"
done | remove
printf '%s\n' "$folders" "$files" | sed '/^$/d' > "$prefix/$LIST.new"
mv -f -- "$prefix/$LIST.new" "$prefix/$LIST"

echo "installed $version into $prefix; $prefix/libexec/sandbox/install.sh --uninstall removes it"
case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
