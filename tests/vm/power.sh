# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: looks at what the last boot left in the pool, then saves until its power is cut.
#   portus.do=make    the pool is made, and nothing else done
#   portus.do=save    portus.step=N: saves from this step on
#   portus.do=slow    so, on a disk each of whose writes takes a second, once something is in the pool
#   portus.do=end     portus.free=BYTES: removes all versions, to see that so much is free as in the beginning
set -eu
. "$(dirname "$0")/common.sh"
DO=$(value do) CK=/mnt/disk/ck
[ "$DO" != make ] || make_namespace
mount_pmem

# The disk, with writes that take so many milliseconds.
delay() { echo "0 $(cat /sys/block/vda/size) delay /dev/vda 0 0 /dev/vda 0 $1"; }
if [ "$DO" = slow ]; then
    delay 0 | dmsetup create slow
    mount /dev/mapper/slow /mnt/disk
else
    mount /dev/vda /mnt/disk
fi
if [ "$DO" = make ]; then
    "$CTL" pool create "$POOL" 8M
    "$CTL" pool info "$POOL"
    mkdir -p "$CK"
fi
echo "domain $(domain)"
echo look
"$BUILD/tests/kill/kept" "$POOL" | sed 's/^/found /'
"$BUILD/tests/vm/save" look $CK/*.ckpt | sed 's/^/disk /'
case $DO in
make)
    sync
    exit 0
    ;;
end)
    "$CTL" pool check "$POOL"
    "$CTL" gc --store "$POOL" "$(value free)" || true # all but the newest
    "$BUILD/tests/kill/kept" "$POOL" | while read -r number _ _ _ path; do
        [ "$number" = free ] || "$CTL" rm --store "$POOL" --version "$number" "$path" >/dev/null
    done
    "$BUILD/tests/kill/kept" "$POOL" | sed 's/^/left /'
    exit 0
    ;;
esac
for name in a b; do
    "$CTL" restore --store "$POOL" --to /tmp/r "$CK/$name.ckpt" >/tmp/said 2>&1 || sed 's/^/none /' /tmp/said
done
"$BUILD/tests/vm/save" look /tmp/r$CK/[ab].ckpt | sed 's/^/restored /'
export PORTUS_STORE="$POOL" PORTUS_MATCH='*' PORTUS_MIN_WRITE=1 PORTUS_SAMPLE=0 PORTUS_ORDER=relaxed
STEP=$(value step)
start() { LD_PRELOAD=$BUILD/libportus_shim.so "$BUILD/tests/vm/save" write $CK "$STEP" 2>&1 | tee /tmp/synced & }
echo saving
start_agent
start
while kill -0 $! 2>/dev/null; do
    "$BUILD/tests/kill/kept" "$POOL" | sed 's/^/kept /'
    if grep -q 'written as usual' /tmp/synced; then # the agent was too slow, as the machine is
        pkill -x save
        STEP=$((STEP + 100))
        start
    fi
    echo kept-all
    if [ "$DO" = slow ] && [ "$(wc -l </tmp/synced)" -gt 2 ]; then
        delay 1000 | dmsetup load slow
        dmsetup resume slow
        echo slow
        wait
    fi
done
echo 'the program ended'
exit 1
