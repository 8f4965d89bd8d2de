# Makes the image of ci/Dockerfile from the package, and runs a command in it. Its base is the system of
# the engine, on which the package's dependencies are installed: packages are not available here. As on a
# real base, another package brings iptables (empty here), and nftables stays only if the package depends on it.
set -eu
rm -rf "$FOLDER"
mkdir "$FOLDER"
cd "$FOLDER"
images="localhost/archive-command localhost/archive-base localhost/archive-system"
trap 'cd /; rm -rf "$FOLDER"; "$PODMAN" rmi --force $images > /dev/null' EXIT
(cd "$ROOT" && tar --create --warning=no-file-changed bin etc lib* sbin usr var/lib/dpkg) |
    "$PODMAN" import --quiet - localhost/archive-system
mkdir base context
cat > base/apt-get <<'END'
#!/bin/sh
[ "$1" = install ] || exit 0
mkdir -p /tmp/iptables/DEBIAN
printf 'Package: iptables\nVersion: 1.8\nArchitecture: all\nMaintainer: test\nDescription: empty\n' > /tmp/iptables/DEBIAN/control
dpkg-deb --build /tmp/iptables /tmp/iptables.deb
dpkg --install /tmp/iptables.deb /tmp/sandbox_*.deb
dpkg --purge nftables || true
END
chmod 755 base/apt-get
printf 'FROM localhost/archive-system\nRUN mkdir -p /root /run /srv /tmp /var/tmp && chmod 1777 /tmp /var/tmp\nCOPY apt-get /usr/local/sbin/\n' > base/Dockerfile
"$PODMAN" build --quiet --tag localhost/archive-base "$FOLDER/base"
cp "$DEB" context
cp "$DOCKERFILE" context/Dockerfile
"$PODMAN" build --quiet --build-arg BASE=localhost/archive-base --tag localhost/archive-command "$FOLDER/context"
"$PODMAN" save --quiet --output "$FOLDER/image.tar" "$IMAGE"
"$PODMAN" run --rm --privileged --volume "$FOLDER:/given:ro" --workdir /srv localhost/archive-command sh -euc '
    podman load --quiet --input /given/image.tar
    sandbox run --image "$1" --wait -- sh -c "echo here; ! curl -sS --max-time 5 http://203.0.113.1/" > said
    cat said
    [ "$(cat said)" = here ]' sh "$IMAGE"
