# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: the behaviours that lean most on the file system, plainly and under the shim, on file systems that the host
# has not, and by other ways to one.   portus.do=local|nfs   A line each:  same|differs KIND PROGRAM, captured N;  says KIND TEXT
set -u
. "$(dirname "$0")/common.sh"
PROGRAMS='write patch rename fsync truncate'
modprobe -d "$BUILD/tests/vm/kernel" -a f2fs btrfs fuse nfsd nfsv4 autofs4 2>&1
ip link set lo up
export PORTUS_SAMPLE=0

# KIND, its directory, then variables: each program there, plainly and captured.
compare() {
    kind=$1 top=$2
    shift 2
    for program in $PROGRAMS; do
        rm -rf "$top/a" "$top/b"
        mkdir "$top/a" "$top/b"
        (cd "$top/a" && "$BUILD/tests/shim/$program" >/run/a.out 2>/run/a.err)
        echo $? >>/run/a.out
        (cd "$top/b" && env PORTUS_SUMMARY=1 PORTUS_MATCH='*' PORTUS_MIN_WRITE=1 "$@" LD_PRELOAD="$BUILD/libportus_shim.so" \
            "$BUILD/tests/shim/$program" >/run/b.out 2>/run/b.err)
        echo $? >>/run/b.out
        word=same
        cmp -s /run/a.out /run/b.out && diff -r "$top/a" "$top/b" >/dev/null || word=differs
        [ "$(find "$top/b" -name '.nfs*' -o -name '.fuse*' | wc -l)" = 0 ] || word="differs (leaves files)"
        echo "$word $kind $program, captured $(sed -n 's/.*summary: captured \([0-9]*\) file.*/\1/p' /run/b.err | awk '{n += $1} END {print n + 0}')"
        [ "$word" = same ] || { diff /run/a.out /run/b.out; cat /run/b.err; diff -r "$top/a" "$top/b"; } | head -20
        grep -h 'written as usual' /run/b.err | sed "s|^|says $kind |" >>/run/says
    done
    sort -u /run/says 2>/dev/null | head -3
    rm -f /run/says
}

start_agent
[ "$(value do)" = local ] && for kind in f2fs btrfs; do
    "mkfs.$kind" -f /dev/vdb >/run/made 2>&1 || { echo "missing mkfs.$kind"; continue; }
    mkdir "/mnt/$kind"
    mount -t "$kind" /dev/vdb "/mnt/$kind" || { echo "missing $kind"; continue; }
    compare "$kind" "/mnt/$kind"
    until umount "/mnt/$kind"; do sleep 1; done
done
mkfs.ext4 -q /dev/vda && mount /dev/vda /mnt/disk || exit 1

if [ "$(value do)" = local ]; then
    # Other ways to a directory of it.
    mkdir /mnt/disk/real /mnt/bound
    mount --bind /mnt/disk/real /mnt/bound
    compare bind /mnt/bound
    ln -s /mnt/disk/real /mnt/link
    compare symlink /mnt/link
    exit 0
fi

# NFS, from a kernel's server.
PROGRAMS='write fsync'
mkdir /mnt/disk/exported
if command -v exportfs >/dev/null && command -v rpc.nfsd >/dev/null; then
    mkdir -p /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery /mnt/nfs
    mount -t nfsd nfsd /proc/fs/nfsd
    echo 10 >/proc/fs/nfsd/nfsv4leasetime
    echo 10 >/proc/fs/nfsd/nfsv4gracetime
    exportfs -o rw,fsid=0,no_root_squash,insecure,no_subtree_check '*:/mnt/disk/exported'
    rpc.mountd -N 3 >/dev/null 2>&1
    rpc.nfsd -N 3 4
    if mount -t nfs4 -o vers=4.2,noresvport localhost:/ /mnt/nfs; then
        compare nfs /mnt/nfs
        compare nfs,PORTUS_SHARED=1 /mnt/nfs PORTUS_SHARED=1
        compare nfs,PORTUS_SHARED=2 /mnt/nfs PORTUS_SHARED=2
        # A server that hangs: who writes there waits, and nobody else of the job does.
        mkdir /mnt/nfs/hung /mnt/disk/free
        rpc.nfsd 0
        (cd /mnt/nfs/hung && LD_PRELOAD=$BUILD/libportus_shim.so "$BUILD/tests/shim/write" >/run/hung.out 2>&1; echo "hung ended $?") &
        hung=$!
        sleep 3
        began=$(cut -d. -f1 /proc/uptime)
        (cd /mnt/disk/free && PORTUS_SUMMARY=1 LD_PRELOAD=$BUILD/libportus_shim.so timeout -s KILL 60 "$BUILD/tests/shim/rename" >/run/free.out 2>/run/free.err)
        echo "free ended $? after $(($(cut -d. -f1 /proc/uptime) - began)) s, $(grep -o 'captured [0-9]* file' /run/free.err)"
        timeout -s KILL 20 "$CTL" status >/run/status 2>&1
        echo "status ended $?"
        rpc.nfsd -N 3 4
        wait $hung
        md5sum </mnt/nfs/hung/a.ckpt | sed 's/^/hung /'
        (cd /mnt/disk/free && "$BUILD/tests/shim/write" >/dev/null && md5sum <a.ckpt | sed 's/^/right /')
        umount /mnt/nfs
    else
        echo 'missing nfs: not mounted'
    fi
else
    echo 'missing nfs: no nfs-kernel-server'
fi

exit 0
