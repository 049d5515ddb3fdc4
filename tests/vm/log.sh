# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: saves under the shim on a disk each of whose writes is logged (dm-log-writes).
#   portus.kind=ext4|xfs|unsynced    its file system; unsynced: ext4, and the program leaves it to the rename
set -eu
. "$(dirname "$0")/common.sh"
echo "0 $(cat /sys/block/vda/size) log-writes /dev/vda /dev/vdb" | dmsetup create log
case $KIND in
ext4 | unsynced) mkfs.ext4 -q /dev/mapper/log ;;
xfs) mkfs.xfs -q /dev/mapper/log ;;
esac
if [ "$KIND" = unsynced ]; then
    export SAVE_UNSYNCED=1
    mount -o commit=1 /dev/mapper/log /mnt/disk
else
    mount /dev/mapper/log /mnt/disk
fi
mkdir /mnt/disk/ck
sync
dmsetup message log 0 mark begin
export PORTUS_MATCH='*' PORTUS_MIN_WRITE=1 PORTUS_SAMPLE=0 SAVE_MARK=log
start_agent
LD_PRELOAD=$BUILD/libportus_shim.so "$BUILD/tests/vm/save" write /mnt/disk/ck 1
