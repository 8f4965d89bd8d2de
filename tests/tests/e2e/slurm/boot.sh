# Boots the machine NAME of a cluster, in new mount, network, uts, ipc and pid namespaces, and
# becomes its first process. Prints its process id, as the outside sees it, when it has booted.
#
# - ROOT: a Debian system, which stays as it is
# - BASE: the folder of the cluster, with `etc` of all machines, `shared`, the file system that they
#   share, and NAME/local and NAME/tmp, the disk of this machine
# - ADDRESS: its address
# - CONTROLLER: the first process of the machine that has the bridge, if that is another one
# - USER_ID: the ordinary user
set -eu
read -r pid _ < /proc/self/stat
hostname "$NAME"
mount --make-rprivate /

ip link set lo up
if [ -z "$CONTROLLER" ]; then
    ip link add cable0 type bridge
else
    on_controller() { nsenter --target "$CONTROLLER" --net ip link "$@"; }
    # The cable of a machine that lost power disappears a little later than the machine.
    on_controller delete "$NAME" 2>/dev/null || :
    # The other end is here: this is process 1 of its namespace.
    on_controller add "$NAME" type veth peer name cable0 netns 1
    on_controller set "$NAME" master cable0 up
fi
ip address add "$ADDRESS/24" dev cable0
ip link set cable0 up

mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
cd "$ROOT"
mount -t proc proc proc
mount --rbind /sys sys
# Where cgroup v2 is mounted next to v1 (hybrid), crun assumes that the machine has v2 and fails.
if mountpoint -q sys/fs/cgroup/unified; then umount sys/fs/cgroup/unified; fi
mount -t tmpfs -o mode=755 dev dev
mkdir dev/net dev/pts dev/shm
# Device nodes of its own, since those of the outside may be accessible only to root.
device() { mknod -m 666 "dev/$1" c "$2" "$3"; }
device null 1 3
device zero 1 5
device full 1 7
device random 1 8
device urandom 1 9
device tty 5 0
device net/tun 10 200
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t tmpfs -o mode=755 run run
mount --bind "$BASE/etc" etc
mount --bind "$BASE/shared" cluster
mount --bind "$BASE/$NAME/local" local
mount --bind "$BASE/$NAME/tmp" tmp
mount --bind "$BASE/$NAME/tmp" var/tmp
pivot_root . .old
umount -l /.old
cd /
mount --make-rshared /

mkdir -p /run/munge
munged --force --pid-file=/run/munge/pid --log-file=/local/munged.log --seed-file=/local/munge.seed \
    --num-threads=2
echo "$pid"
exec catatonit -P </dev/null >/dev/null 2>&1
