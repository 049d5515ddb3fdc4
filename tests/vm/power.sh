# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: looks at what the last boot left in the pool, then saves until its power is cut.
#   portus.do=make    the pool is made, and nothing else done
#   portus.do=save    portus.step=N: saves from this step on
#   portus.do=end     removes all versions, to see that their room is free again
set -eu
. "$(dirname "$0")/common.sh"
DO=$(value do)
[ "$DO" != make ] || make_namespace
mount_pmem
mount /dev/vda /mnt/disk
if [ "$DO" = make ]; then
    "$CTL" pool create "$POOL" 48M
    mkdir -p /mnt/disk/ck
fi
echo "domain $(domain)"
echo look
"$BUILD/tests/kill/kept" "$POOL" | sed 's/^/found /'
"$CTL" pool check "$POOL"
"$CTL" pool info "$POOL"
for name in a b; do
    path=/mnt/disk/ck/$name.ckpt
    if "$BUILD/tests/vm/save" look "$path" >/tmp/step 2>/dev/null; then
        echo "disk $name.ckpt $(cat /tmp/step)"
    fi
    if "$CTL" restore --store "$POOL" --to /tmp/r "$path" >/tmp/said 2>&1; then
        echo "restored $name.ckpt $("$BUILD/tests/vm/save" look "/tmp/r$path" || echo torn)"
    else
        sed 's/^/none /' /tmp/said
    fi
done
case $DO in
make)
    sync
    exit 0
    ;;
end)
    "$BUILD/tests/kill/kept" "$POOL" | while read -r number _ _ _ path; do
        [ "$number" = free ] || "$CTL" rm --store "$POOL" --version "$number" "$path" >/dev/null
    done
    "$BUILD/tests/kill/kept" "$POOL" | sed 's/^/left /'
    exit 0
    ;;
esac
export PORTUS_STORE="$POOL" PORTUS_MATCH='*' PORTUS_MIN_WRITE=1 PORTUS_SAMPLE=0 PORTUS_ORDER=relaxed
echo saving
LD_PRELOAD=$BUILD/libportus_shim.so "$BUILD/tests/vm/save" write /mnt/disk/ck "$(value step)" &
unset PORTUS_STORE
while kill -0 $! 2>/dev/null; do
    "$BUILD/tests/kill/kept" "$POOL" | sed 's/^/kept /'
    echo kept-all
done
echo 'the program ended'
exit 1
