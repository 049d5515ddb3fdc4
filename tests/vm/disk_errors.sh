# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: a disk fails each write for some seconds, again and again, while checkpoints are drained to it, or
# while portusd has its pool, in a file, on it.
#   portus.kind=ext4|xfs      the disk's file system
#   portus.do=drain|pool
set -u
. "$(dirname "$0")/common.sh"
good() { echo "0 $(cat /sys/block/vda/size) linear /dev/vda 0" | dmsetup load disk; }
bad() { echo "0 $(cat /sys/block/vda/size) $1" | dmsetup load disk; }
turn() { dmsetup suspend --nolockfs --noflush disk && dmsetup resume disk; }
case $KIND in
ext4) mkfs.ext4 -q /dev/vda ;;
xfs) mkfs.xfs -q /dev/vda ;;
esac
echo "0 $(cat /sys/block/vda/size) linear /dev/vda 0" | dmsetup create disk
export PORTUS_MATCH='*' PORTUS_MIN_WRITE=1 PORTUS_SAMPLE=0

if [ "$(value do)" = drain ]; then
    for round in 1 2; do
        mount /dev/mapper/disk /mnt/disk || exit 1
        mkdir -p /mnt/disk/ck
        sync
        start_agent
        echo "round $round"
        LD_PRELOAD=$BUILD/libportus_shim.so timeout -s KILL 12 "$BUILD/tests/vm/save" try /mnt/disk/ck ${round}000 2>&1 &
        sleep 6
        bad "flakey /dev/vda 0 0 3600 1 error_writes"
        turn
        sleep 2
        good
        turn
        wait
        pkill -x portus-agent
        until umount /mnt/disk; do sleep 1; done
        mount /dev/mapper/disk /mnt/disk || exit 1
        "$BUILD/tests/vm/save" look /mnt/disk/ck/[ab].ckpt | sed 's/^/disk /'
        umount /mnt/disk
    done
    exit 0
fi
mount /dev/mapper/disk /mnt/disk
POOL=/mnt/disk/pool FILES=/mnt/pmem
mount -t ext4 /dev/vdb $FILES
"$CTL" pool create "$POOL" 8M
sync
export PORTUS_STORE=$POOL
"$BUILD/portusd" "$POOL" 2>&1 | sed 's/^/portusd: /' &
start_agent
LD_PRELOAD=$BUILD/libportus_shim.so "$BUILD/tests/vm/save" try $FILES 1 2>&1 &
sleep 8
"$BUILD/tests/kill/kept" "$POOL" | sed 's/^/kept /'
bad error
turn
echo failing
sleep 6
good
turn
echo healed
pidof portusd >/dev/null && echo 'portusd lives'
sleep 2
pkill -x save
sleep 2
"$BUILD/tests/vm/save" look $FILES/[ab].ckpt | sed 's/^/disk /'
pkill -x portusd
sleep 1
umount /mnt/disk
mount /dev/mapper/disk /mnt/disk || exit 1
"$BUILD/tests/kill/kept" "$POOL" | sed 's/^/found /'
exit 0
