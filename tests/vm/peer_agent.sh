# SPDX-License-Identifier: BSD-3-Clause
# Words for the agent's guest, sourced: disk, saved ADDRESS (NAME MIB)..., versions ADDRESS PATH, restored ADDRESS PATH.
CTL=$BUILD/portusctl
PORTUS_KEY=/tmp/key
export PORTUS_KEY
[ -e /tmp/key ] || { cp "$(sed -n 's/.*portus\.key=\([^ ]*\).*/\1/p' /run/asked)" /tmp/key && chmod 600 /tmp/key; }

disk() { mount /dev/vda /mnt/disk && mkdir -p /mnt/disk/ck; }

# Files NAME MIB of random bytes, by one process (its agent does not end between them), each when the store has the one
# before. Prints their sums, and what the agent said.
saved() {
    store=$1
    shift
    : >/tmp/log
    PORTUS_STORE=$store PORTUS_LOG=debug:/tmp/log LD_PRELOAD=$BUILD/libportus_shim.so \
        python3 -S "$(dirname "$BUILD")/tests/vm/peer_save.py" /tmp/log /mnt/disk/ck "$@"
    status=$?
    sed 's/^/log /' /tmp/log
    return $status
}

versions() { "$CTL" versions --store "$1" "$2"; }

restored() { "$CTL" restore --store "$1" --to /mnt/disk/r "$2" 2>&1 | cat; }
