# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: looks at what the last boot's save left, then saves three files (sized_cuts.py).
#   portus.where=DIR   N/NAME there is what step N saves; slow.so makes a drain slow
#   portus.step=N portus.do=drains|drained|look   says "cut" in the middle of the drain, or after it
set -eu
. "$(dirname "$0")/common.sh"
WHERE=$(value where) STEP=$(value step) CK=/mnt/disk/ck
date -s "@$(($(date +%s) + 3600 * STEP))" >/dev/null # the power was off for so long; this guest's boot is one of before
[ "$STEP" != 0 ] || make_namespace
mount_pmem
mount -o commit=300 /dev/vda /mnt/disk # the journal waits for who asks for it
export PORTUS_STORE="$POOL" PORTUS_MATCH='*.pt' PORTUS_MIN_WRITE=1 PORTUS_SAMPLE=0 PORTUS_ORDER=relaxed PORTUS_LOG=debug:/tmp/log
if [ "$STEP" = 0 ]; then
    "$CTL" pool create "$POOL" 64M
    mkdir "$CK"
fi
"$CTL" complete --list >/dev/null # read in by now: a program does not wait long for it
turn=$((STEP / 2))
for file in "$CK"/*.pt; do
    [ -e "$file" ] || break
    wanted=$WHERE/$((STEP - 1))/${file##*/}
    if cmp -s "$wanted" "$file"; then # perhaps it was not captured, as the machine is slow
        echo "right: $file, by itself"
        continue
    fi
    stat -c "stood %n %s %b blocks, of %y, changed %z" "$file"
    turn=$((turn + 1))
    case $((turn % 3)) in
    0) how="opened" && LD_PRELOAD=$BUILD/libportus_shim.so PORTUS_RESTORE=auto PORTUS_LOG=warn cmp "$wanted" "$file" ;;
    1) how="completed" && "$CTL" complete -- "$file" && cmp "$wanted" "$file" ;;
    2) how="restored" && "$CTL" restore -- "$file" && cmp "$wanted" "$file" ;;
    esac && echo "right: $file, $how" || {
        echo "WRONG: $file, $how"
        "$CTL" versions --json / | tr -d '\n'
        filefrag -v "$file"
    }
done
[ "$(value do)" != look ] || exit 0
rm -f "$CK"/*.pt
sync
start_agent "$WHERE/slow.so"
LD_PRELOAD=$BUILD/libportus_shim.so "$(value python)" -SE - "$WHERE/$STEP" "$CK" <<'END'
import os, sys
os.chdir(sys.argv[2])
directory = os.open(".", os.O_RDONLY)
for way in ("plain", "sized", "blocks"):
    with open(f"{sys.argv[1]}/{way}.pt", "rb") as f:
        data = f.read()
    with open("new.pt", "wb", buffering=0) as f:
        if way == "sized":
            f.truncate(len(data))
        if way == "blocks":
            os.posix_fallocate(f.fileno(), 0, len(data))
        for at in range(0, len(data), 1 << 20):
            f.write(data[at:at + (1 << 20)])
        os.fsync(f.fileno())
    os.rename("new.pt", way + ".pt")
    os.fsync(directory)
    print("synced", way, flush=True)
sys.stdout.flush()
os._exit(0)
END
if [ "$(value do)" = drained ]; then
    until [ "$(grep -c 'the store has it' /tmp/log)" = 3 ]; do sleep 0.1; done
fi
echo cut
sleep 100
