# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: tests of tests/ that want what a host may not have: cgroups of version 2 with memory in them, and NFS from a
# kernel's server that can be made silent.
#   portus.top=TESTS portus.names=NAME,...
# For each:  ended NAME STATUS, and what it said
set -u
. "$(dirname "$0")/common.sh"
TESTS=$(value top)
modprobe -d "$BUILD/tests/vm/kernel" -a fuse nfsd nfsv4 2>&1
ip link set lo up
mount -t cgroup2 cgroup2 /sys/fs/cgroup || exit 1
echo +memory >/sys/fs/cgroup/cgroup.subtree_control || exit 1
mkfs.ext4 -q /dev/vda && mount /dev/vda /mnt/disk || exit 1
mount_nfs
export B="$BUILD" PYTHONPATH="$TESTS" PYTHONDONTWRITEBYTECODE=1 SLOW=4
for name in $(value names | tr , ' '); do
    # PLACE:NAME: with a silent file system of that kind
    unset SILENT_MOUNT SILENT_ON SILENT_OFF
    case $name in
    nfs:*) export SILENT_MOUNT=/mnt/nfs SILENT_ON='ip link set lo down' SILENT_OFF='ip link set lo up' ;;
    esac
    mkdir -p /mnt/disk/test
    cd /mnt/disk/test || exit 1
    TEST_DIR=$PWD PORTUS_JOB=$(echo "$name" | tr /: --) timeout -s KILL 900 python3 "$TESTS/${name#nfs:}.py" >/run/said 2>&1
    echo "ended $name $?"
    sed 's/^/  /' /run/said
    cd /
    rm -rf /mnt/disk/test
done
exit 0
