# SPDX-License-Identifier: BSD-3-Clause
# Words for the agent's guest, sourced: disk, saved ADDRESS (NAME MIB)..., versions ADDRESS PATH, restored ADDRESS PATH.
CTL=$BUILD/portusctl
PORTUS_KEY=/tmp/key
export PORTUS_KEY
[ -e /tmp/key ] || { cp "$(sed -n 's/.*portus\.key=\([^ ]*\).*/\1/p' /proc/cmdline)" /tmp/key && chmod 600 /tmp/key; }

disk() { mount /dev/vda /mnt/disk && mkdir -p /mnt/disk/ck; }

# Files NAME MIB of random bytes; waits until the store has each. Prints their sums.
saved() {
    store=$1
    shift
    : >/tmp/log
    count=0
    while [ $# -gt 0 ]; do
        head -c "$2M" /dev/urandom >"/tmp/$1"
        PORTUS_STORE=$store PORTUS_LOG=debug:/tmp/log LD_PRELOAD=$BUILD/libportus_shim.so \
            dd "if=/tmp/$1" "of=/mnt/disk/ck/$1" bs=1M status=none || return 1
        count=$((count + 1))
        for _ in $(seq 120); do
            [ "$(grep -c 'the store has it' /tmp/log)" -ge $count ] && break
            sleep 0.5
        done
        (cd /tmp && sha256sum "$1")
        shift 2
    done
    sed 's/^/log /' /tmp/log
    [ "$(grep -c 'the store has it' /tmp/log)" -ge $count ]
}

versions() { "$CTL" versions --store "$1" "$2"; }

restored() { "$CTL" restore --store "$1" --to /mnt/disk/r "$2" 2>&1 | cat; }
