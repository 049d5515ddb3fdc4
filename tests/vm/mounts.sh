# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: the behaviours that lean most on the file system, plainly and under the shim, on file systems that the host
# has not, and by other ways to one.   portus.do=local|autofs|nfs|ganesha   A line each:  same|differs KIND PROGRAM, captured N;  says KIND TEXT
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
        grep -q '@portus/' /proc/net/unix || start_agent # it ends where nothing is captured for a while
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

# A directory that is mounted when somebody goes there.
if [ "$(value do)" = autofs ]; then
    if command -v automount >/dev/null; then
        mkfs.ext4 -qF /dev/vdb
        mkdir /mnt/auto
        echo '/mnt/auto /run/auto.map --timeout=300' >/run/auto.master
        echo 'disk -fstype=ext4 :/dev/vdb' >/run/auto.map
        setsid automount /run/auto.master # its process group has a number then
        i=0
        until [ -d /mnt/auto/disk/. ] || [ $((i += 1)) = 50 ]; do sleep 0.2; done
        if grep -q '/mnt/auto/disk ext4' /proc/mounts; then
            compare autofs /mnt/auto/disk
        else
            echo 'missing autofs: not mounted'
        fi
    else
        echo 'missing autofs'
    fi
    exit 0
fi

# NFS, from a server that is a program.
if [ "$(value do)" = ganesha ]; then
    PROGRAMS='write patch rename fsync'
    command -v ganesha.nfsd >/dev/null || { echo 'missing ganesha'; exit 0; }
    mkdir -p /mnt/disk/exported /mnt/nfs /var/run/ganesha /var/lib/nfs/ganesha
    cat >/run/ganesha.conf <<'END'
NFS_CORE_PARAM { Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; }
NFSv4 { Graceless = true; Minor_Versions = 1, 2; }
EXPORT {
    Export_Id = 1; Path = /mnt/disk/exported; Pseudo = /exported; Access_Type = RW; Squash = No_Root_Squash;
    SecType = sys; Protocols = 4; Transports = TCP; FSAL { Name = VFS; }
}
END
    ganesha.nfsd -f /run/ganesha.conf -L /run/ganesha.log -p /run/ganesha.pid
    i=0
    until mount -t nfs4 -o vers=4.1,noresvport localhost:/exported /mnt/nfs 2>/dev/null || [ $((i += 1)) = 60 ]; do sleep 1; done
    if grep -q /mnt/nfs /proc/mounts; then
        compare ganesha /mnt/nfs
        compare ganesha,PORTUS_SHARED=1 /mnt/nfs PORTUS_SHARED=1
        compare ganesha,PORTUS_SHARED=2 /mnt/nfs PORTUS_SHARED=2
        umount /mnt/nfs
    else
        echo 'missing ganesha: not mounted'
        tail -5 /run/ganesha.log
    fi
    exit 0
fi

# NFS, from a kernel's server.
PROGRAMS='write fsync'
if mount_nfs; then
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
fi

exit 0
