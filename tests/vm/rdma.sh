# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: soft-RoCE, and what portus.do says.
#   portus.do=one       both ends of a link in this guest, on a dummy device, beside others' tools
#   portus.do=faults    what a link does when its other end, its key or the network fails
#   portus.do=commit    a program, its agent and a store in this guest: how long 1 MiB takes until it is committed
set -u
BUILD=$(sed -n 's/.*portus\.build=\([^ ]*\).*/\1/p' /run/asked)
DO=$(sed -n 's/.*portus\.do=\([^ ]*\).*/\1/p' /run/asked)
A=10.9.0.1
PULL=$BUILD/tests/vm/pull
ulimit -l unlimited
mkdir -p /mnt/pmem

# An address of its own: on lo soft-RoCE does not work.
soft_roce() {
    ip link add dummy0 type dummy 2>/dev/null || true
    ip link set lo up
    ip addr add $A/24 dev dummy0
    ip link set dummy0 mtu 4200 up
    rdma link add rxe0 type rxe netdev dummy0
    sleep 1
}

pool() {
    mountpoint -q /mnt/pmem && umount /mnt/pmem
    case $1 in
    devdax | fsdax) ndctl create-namespace -f -e namespace0.0 -m "$1" -M mem >/dev/null || echo "failed ndctl $1" ;;
    esac
    case $1 in
    devdax) POOL=/dev/dax0.0 ;;
    fsdax)
        mkfs.ext4 -q -b 4096 -F /dev/pmem0
        mount -o dax /dev/pmem0 /mnt/pmem
        POOL=/mnt/pmem/pool
        ;;
    file) POOL=/mnt/file ;;
    esac
}

# both MIB SERVE_ARGUMENTS... -- OFFER_ARGUMENTS...: one link, and how both ended
both() {
    mib=$1
    shift
    args=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        args="$args $1"
        shift
    done
    [ $# -eq 0 ] || shift
    # shellcheck disable=SC2086   # words
    (timeout 120 "$PULL" serve $A $POOL "$mib" $args | sed 's/^/store /'; echo store-ended) >/tmp/store 2>&1 &
    for i in 1 2 3 4 5 6 7 8 9 10; do
        grep -q listening /tmp/store && break
        sleep 0.5
    done
    timeout 120 "$PULL" offer $A "$mib" "$@" | sed 's/^/agent /'
    wait
    grep -v 'store pulled [0-9]*$' /tmp/store
}

# fault NAME MIB WHAT OFFER_ARGUMENTS...: WHAT is done once some is pulled, with $store and $agent
fault() {
    echo "fault $1"
    mib=$2 what=$3
    shift 3
    : >/tmp/store
    : >/tmp/agent
    timeout 120 "$PULL" serve $A $POOL "$mib" >/tmp/store 2>&1 &
    store=$!
    for i in 1 2 3 4 5 6 7 8 9 10; do
        grep -q listening /tmp/store && break
        sleep 0.5
    done
    timeout 120 "$PULL" offer $A "$mib" "$@" >/tmp/agent 2>&1 &
    agent=$!
    for i in $(seq 200); do
        grep -q 'pulled\|broken' /tmp/store && break
        sleep 0.1
    done
    # The programs themselves, not timeout.
    store=$(pgrep -P $store) agent=$(pgrep -P $agent)
    eval "$what"
    wait
    grep -v 'pulled [0-9]*$' /tmp/store | sed 's/^/store /'
    sed 's/^/agent /' /tmp/agent
}

# What others' tools say of the same device: MiB a second.
yardstick() {
    gid=$(sed -n 's/.* gid \([0-9]*\) .*/\1/p' /tmp/devices)
    (timeout 60 "$@" -d rxe0 -x "$gid" >/dev/null 2>&1) &
    sleep 2
    timeout 60 "$@" -d rxe0 -x "$gid" $A 2>/dev/null | awk -v name="$1 $3" '/^ *[0-9]/ { print "yardstick", name, $4 }'
    wait
}

# How long one READ takes: bytes, the median and the mean in us.
latency() {
    gid=$(sed -n 's/.* gid \([0-9]*\) .*/\1/p' /tmp/devices)
    timeout 60 ib_read_lat -s "$1" -n 50 -F -d rxe0 -x "$gid" >/dev/null 2>&1 &
    server=$!
    sleep 2
    timeout 60 ib_read_lat -s "$1" -n 50 -F -d rxe0 -x "$gid" $A 2>/dev/null |
        awk '/^ *[0-9]/ { print "yardstick ib_read_lat", $1, $5, $6 }'
    wait $server
}

soft_roce
"$PULL" devices | tee /tmp/devices
case $DO in
one)
    for kind in devdax fsdax file; do
        pool $kind
        echo "kind $kind"
        both 32
    done
    # As a link does it: two queue pairs, pieces of 256 KiB.
    for tool in ib_read_bw ib_write_bw; do
        yardstick $tool -s 262144 -n 128 -q 2 -F
        yardstick $tool -s 1048576 -n 32 -F
    done
    both 32 # once more, beside them in time
    (timeout 60 rping -s -a $A -C 20 -S 4096 -V >/dev/null 2>&1) &
    for i in 1 2 3 4 5; do
        sleep 2
        timeout 20 rping -c -a $A -C 20 -S 4096 -V >/dev/null 2>&1 && echo 'yardstick rping works' && break
    done
    wait
    ;;
faults)
    pool file
    fault wrong-secret 8 : wrong-secret
    fault wrong-key 16 : wrong-key
    fault withdrawn 16 : withdraw
    fault broken-off 64 : break
    fault stopped 64 'kill -STOP $store; sleep 12; kill -CONT $store' break
    fault agent-killed 64 'kill -KILL $agent'
    fault store-killed 64 'kill -KILL $store'
    fault agent-stopped 64 'kill -STOP $agent; sleep 5; kill -CONT $agent'
    echo 'fault memlock'
    (
        ulimit -l 8192
        timeout 60 setpriv --bounding-set=-all --inh-caps=-all --reuid=65534 "$PULL" serve $A /mnt/small 16 2>&1
    ) | sed 's/^/store /'
    fault none 16 :
    ;;
commit)
    HERE=$(dirname "$BUILD")/tests/vm
    export PORTUS_TRACE=/tmp/trace
    # shellcheck disable=SC1091   # of this directory
    . "$HERE/peer_store.sh" && pool devdax && serve rdma://$A
    # shellcheck disable=SC1091
    . "$HERE/peer_agent.sh"
    mkdir -p /mnt/disk && disk
    latency 1048576
    latency 8
    # shellcheck disable=SC2046   # names and sizes
    saved rdma://$A random $(for i in $(seq 17); do echo "$i.ckpt 1"; done) | grep -v '^log'
    latency 1048576
    finish | grep 'by RDMA'
    grep '"name":"\(commit\|keep\)"' /tmp/trace | sed 's/^/trace /'
    ;;
sizes)
    pool file
    for piece in 64 256 1024; do
        for lanes in 1 2 4; do
            echo "piece $piece lanes $lanes"
            both 32 $piece $lanes | grep -E 'pull|push|same|equal'
        done
    done
    for size in 65536 262144 1048576; do
        yardstick ib_read_bw -s $size -n 64 -F
    done
    ;;
esac
