# SPDX-License-Identifier: BSD-3-Clause
# Words for the agent's guest, sourced: disk, saved ADDRESS HOW (NAME MIB)..., versions ADDRESS PATH, restored ADDRESS PATH.
CTL=$BUILD/portusctl
PORTUS_KEY=/tmp/key
export PORTUS_KEY
[ -e /tmp/key ] || { cp "$(sed -n 's/.*portus\.key=\([^ ]*\).*/\1/p' /run/asked)" /tmp/key && chmod 600 /tmp/key; }

disk() { mount /dev/vda /mnt/disk && mkdir -p /mnt/disk/ck; }

# Files NAME MIB, HOW as peer_save.py knows, by one process (its agent does not end between them), each when the store has the
# one before. Prints their sums, and what the agent said. PYTHON: another one.
saved() {
    store=$1
    shift
    : >/tmp/log
    PORTUS_STORE=$store PORTUS_LOG=debug:/tmp/log LD_PRELOAD=$BUILD/libportus_shim.so \
        ${PYTHON:-python3 -S} "$(dirname "$BUILD")/tests/vm/peer_save.py" /tmp/log /mnt/disk/ck "$@"
    status=$?
    sed 's/^/log /' /tmp/log
    return $status
}

versions() { "$CTL" versions --store "$1" "$2"; }

restored() { "$CTL" restore --store "$1" --to /mnt/disk/r "$2" 2>&1 | cat; }

FAULT=$(dirname "$BUILD")/tests/vm/peer_fault.py

# save ADDRESS NAME LETTERS MIB, in the background; ended SECONDS: how it went.
save() {
    : >/tmp/saved
    (PORTUS_SAMPLE=0 PORTUS_RING_SIZE=16M PORTUS_STORE=$1 PORTUS_LOG=debug:/tmp/log LD_PRELOAD=$BUILD/libportus_shim.so \
        setsid python3 -S "$FAULT" save "/mnt/disk/ck/$2" "$3" "$4" >>/tmp/saved 2>&1
    echo "status $?" >>/tmp/saved) </dev/null >/dev/null 2>&1 &
}

ended() {
    for _ in $(seq $(($1 * 10))); do
        grep -q ^status /tmp/saved && break
        sleep 0.1
    done
    cat /tmp/saved
    grep -q '^status 0' /tmp/saved
}

# again ADDRESS SECONDS: a save is kept, if need be one of another agent.
again() {
    end=$(($(date +%s) + $2))
    while [ "$(date +%s)" -lt $end ]; do
        : >/tmp/log
        # As the shim starts it, which would not wait so long as a guest takes that has just booted.
        pgrep -x portus-agent >/dev/null || PORTUS_STORE=$1 PORTUS_LOG=debug:/tmp/log setsid "$BUILD/portus-agent" </dev/null >/dev/null 2>&1 &
        for _ in $(seq 20); do
            # Until it listens, and answers in time.
            "$CTL" status >/tmp/status 2>&1 && ! grep -q '^no agent' /tmp/status && break
            sleep 0.5
        done
        save "$1" after.ckpt z 3
        ended 30 >/dev/null || break
        for _ in $(seq 40); do
            grep -q 'the store has it' /tmp/log && return 0
            sleep 0.1
        done
        pkill -KILL -x portus-agent
    done
    cat /tmp/saved /tmp/log
    return 1
}
