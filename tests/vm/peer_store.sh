# SPDX-License-Identifier: BSD-3-Clause
# Words for the store's guest, sourced: pool KIND, serve ADDRESS, finish.
CTL=$BUILD/portusctl
KEY=$(sed -n 's/.*portus\.key=\([^ ]*\).*/\1/p' /run/asked)

pool() {
    mountpoint -q /mnt/pmem && umount /mnt/pmem
    case $1 in
    devdax | fsdax) ndctl create-namespace -f -e namespace0.0 -m "$1" -M mem >/dev/null || return 1 ;;
    esac
    case $1 in
    devdax) POOL=/dev/dax0.0 ;;
    fsdax) mkfs.ext4 -q -b 4096 -F /dev/pmem0 && mount -o dax /dev/pmem0 /mnt/pmem && POOL=/mnt/pmem/pool ;;
    file) POOL=/mnt/pool ;;
    esac
    rm -f /mnt/pool
    "$CTL" pool create "$POOL" 160M
}

# In the background; its log is in /tmp/portusd.
serve() {
    [ -e /tmp/keys ] || { cp "$KEY" /tmp/keys && chmod 600 /tmp/keys; } || return 1
    PORTUS_LOG=debug:/tmp/portusd setsid "$BUILD/portusd" --listen "$1" --keys /tmp/keys "$POOL" </dev/null >/tmp/portusd.out 2>&1 &
    echo $! >/tmp/portusd.pid
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        grep -q 'bytes free' /tmp/portusd 2>/dev/null && break
        sleep 0.5
    done
    cat /tmp/portusd /tmp/portusd.out
    kill -0 "$(cat /tmp/portusd.pid)"
}

finish() {
    kill "$(cat /tmp/portusd.pid)"
    sleep 2
    cat /tmp/portusd
    rm -f /tmp/portusd
}

# pure POOL PATH: of which letters the versions of a file are.
pure() {
    "$CTL" verify --store "$1" >/dev/null || return 1
    for number in $("$CTL" versions --store "$1" --json "$2" | tr , '\n' | sed -n 's/.*"commit": *\([0-9]*\).*/\1/p'); do
        rm -rf /tmp/r
        "$CTL" restore --store "$1" --to /tmp/r --version "$number" "$2" >/dev/null || return 1
        python3 -S "$(dirname "$BUILD")/tests/vm/peer_fault.py" look "/tmp/r$2"
    done
    rm -rf /tmp/r
}
