# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: memory under a pool becomes bad, as the kernel tells a process of it, then as a machine check does.
#   portus.kind=fsdax|devdax
set -u
. "$(dirname "$0")/common.sh"
FAILED=0
right() { "$@" >/tmp/said 2>&1 || { echo "WRONG: $*: $(cat /tmp/said)"; FAILED=1; }; }
wrong() { ! "$@" >/tmp/said 2>&1 || { echo "WRONG: no error: $*: $(cat /tmp/said)"; FAILED=1; }; }
said() { grep -q "$1" /tmp/said || { echo "WRONG: not said: $1: $(cat /tmp/said)"; FAILED=1; }; }
# A portusd that reads all of the pool at once.
begin() {
    "$BUILD/portusd" --scrub 1G "$POOL" >>/tmp/portusd 2>&1 &
    DAEMON=$!
    sleep 3
}
finish() { # it has lived so far
    right kill -0 $DAEMON
    kill $DAEMON
    wait $DAEMON
    right test $? -eq 0
}

make_namespace
mount_pmem
"$CTL" pool create "$POOL" 8M
mkdir /tmp/files
for f in 1 2 3; do head -c 400000 /dev/urandom >/tmp/files/f$f; done
right "$CTL" import --store "$POOL" /tmp/files
"$BUILD/tests/kill/kept" "$POOL"
two=$("$BUILD/tests/kill/kept" "$POOL" | sed -n 's| .*f2$||p')
place=$("$BUILD/tests/vm/poison" where "$POOL" "$two")

echo "the kernel tells of a bad page while portusd has it mapped"
begin
right "$BUILD/tests/vm/poison" page "$POOL" "$place"
page=$(dmesg | sed -n 's/.*Injecting memory failure for pfn 0x\([0-9a-f]*\) .*/\1/p' | tail -n 1)
right "$CTL" versions --store "$POOL" /f1 /f2 /f3
finish
right test ! -s /tmp/portusd
right "$CTL" verify --store "$POOL" # it was only said: the page can be read
right "$CTL" pool badblocks "$POOL"

echo "a machine check at page $page: the kernel lists the block, and lets nobody map it on fsdax"
mount -t debugfs none /sys/kernel/debug
cd /sys/kernel/debug/mce-inject || exit 1
echo 0xb400000000080000 >status # valid, not corrected, with an address, of memory
echo "0x${page}000" >addr
echo sw >flags
echo 4 >bank
cd /
for i in 1 2 3 4 5 6 7 8 9; do
    [ ! -s /sys/bus/nd/devices/region0/badblocks ] || break
    sleep 1
done
wrong "$CTL" pool badblocks "$POOL"
said "/f2: commit $two: bytes of it"
if [ "$KIND" = fsdax ]; then
    begin
    for i in $(seq 60); do
        ! grep -q /f2 /tmp/portusd || break
        sleep 1
    done
    cat /tmp/portusd
    right test "$(grep -c 'f2.*damaged' /tmp/portusd)" -eq 1
    right "$CTL" versions --store "$POOL" /f2
    said ' d\|--d'
    wrong "$CTL" verify --store "$POOL"
    said "/f2: commit $two is damaged"
    said '2 versions are good, 1 damaged'
    wrong "$CTL" restore --store "$POOL" --to /tmp/r /f2
    right "$CTL" restore --store "$POOL" --to /tmp/r /f1 /f3
    right cmp /tmp/r/f1 /tmp/files/f1
    right cmp /tmp/r/f3 /tmp/files/f3
    right "$CTL" pin --store "$POOL" /f1
    finish
fi

if [ "$KIND" = fsdax ]; then
    echo "the block is made readable again, as zeros"
    right "$CTL" pool badblocks --clear "$POOL"
    right "$CTL" pool badblocks "$POOL"
    wrong "$CTL" verify --store "$POOL"
else
    wrong "$CTL" pool badblocks --clear "$POOL" # the emulated NVDIMM does not know how
    said 'bad blocks: .*ars_cap'
fi
right "$CTL" rm --store "$POOL" --version "$two" /f2
right "$CTL" verify --store "$POOL"
right "$CTL" scrub --store "$POOL"
[ $FAILED = 0 ] && echo "one of three versions was bad, and was said to be"

if [ "$KIND" = fsdax ]; then
    echo "the file system of the pool is full"
    head -c 200M /dev/zero >/mnt/pmem/rest 2>/dev/null
    wrong "$CTL" pool resize "$POOL" 32M
    said 'No space left'
    wrong "$CTL" pool create /mnt/pmem/another 8M
    right test ! -e /mnt/pmem/another
    right "$CTL" import --store "$POOL" /tmp/r # the pool has its blocks
    right "$CTL" verify --store "$POOL"
    rm /mnt/pmem/rest
    right "$CTL" pool resize "$POOL" 32M
    right "$CTL" verify --store "$POOL"

    echo "the unit test of pools in files, there"
    POOL_KIND=fsdax TMPDIR=/mnt/pmem "$BUILD/tests/unit/pool_file_test" || FAILED=1
fi
exit $FAILED
