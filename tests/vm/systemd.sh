# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: begins a systemd of its own, which begins the other half of this.
#   portus.build=DIR (what was installed, below DIR)
set -u
if [ "${1-}" != inside ]; then
    . "$(dirname "$0")/common.sh"
    cp -a "$BUILD/." /
    mkfs.ext4 -q /dev/vda && mount /dev/vda /mnt/disk
    mount -t cgroup2 none /sys/fs/cgroup
    echo 0123456789abcdef0123456789abcdef >/etc/machine-id
    : >/etc/fstab
    # Nothing of this machine but what portusd's units ask for.
    mkdir -p /etc/systemd/system-generators
    for generator in /lib/systemd/system-generators/*; do
        ln -sf /dev/null "/etc/systemd/system-generators/${generator##*/}"
    done
    rm -rf /etc/systemd/system/*
    for unit in /lib/systemd/system/*.target.wants/*; do
        case $unit in
        */systemd-journald*) ;;
        *) ln -sf /dev/null "/etc/systemd/system/${unit##*/}" ;;
        esac
    done
    cat >/etc/systemd/system/try.service <<EOT
[Unit]
Wants=systemd-journald.service
After=systemd-journald.service
[Service]
Type=oneshot
ExecStart=/bin/sh $(realpath "$0") inside
ExecStopPost=/bin/systemctl exit
EOT
    container=portus exec unshare --pid --fork --mount --mount-proc /lib/systemd/systemd --unit=try.service --log-target=null \
        --show-status=no
fi

exec >/dev/hvc0 2>&1
FAILED=0
right() { "$@" >/tmp/said 2>&1 && echo "right: $*" || { echo "WRONG: $*: $(cat /tmp/said)"; FAILED=1; }; }
wrong() { ! "$@" >/tmp/said 2>&1 && echo "right: no: $*" || { echo "WRONG: no error: $*: $(cat /tmp/said)"; FAILED=1; }; }
soon() {
    for _ in $(seq 40); do
        ! "$@" >/tmp/said 2>&1 || break
        sleep 0.5
    done
    right "$@"
}
as() { # USER command: with the store
    user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --clear-groups env HOME=/mnt/disk PORTUS_STORE=unix:/run/portus/store.sock \
        PORTUS_LOG=debug:/tmp/log-"$user" PORTUS_MIN_WRITE=1 PORTUS_MATCH='*' PORTUS_SAMPLE=0 "$@"
}
main() { systemctl show -P MainPID portusd.service; }
another() { # than that process has come
    [ "$(main)" != "$1" ] && [ "$(main)" != 0 ] && systemctl -q is-active portusd.service
}
save() { # NAME
    # The agent first, as the shim starts it; a slow guest's shim would not wait for it.
    as 1 /bin/sh -c "/usr/local/lib/portus/portus-agent & until grep -q @portus/ /proc/net/unix; do sleep 0.1; done
        LD_PRELOAD=/usr/local/lib/portus/libportus_shim.so dd if=/mnt/disk/bytes of=/mnt/disk/one/$1 bs=1M"
}
kept() { as 1 portusctl versions -- "/mnt/disk/one/$1"; }
says() { journalctl --sync && journalctl -u portusd.service -o cat | grep -- "$1"; }

head -c 5000000 /dev/urandom >/mnt/disk/bytes
mkdir /mnt/disk/one && chown 1:1 /mnt/disk/one
mkdir /var/lib/portus
right portusctl pool create /var/lib/portus/portus.pool 64M
right systemctl enable --now portusd.socket portusd.service
soon systemctl is-active portusd.socket portusd.service
right test "$(stat -c %u "/proc/$(main)")" -ge 61184 # of its own
right says 'bytes free'
right save a.pt
soon kept a.pt
rm /mnt/disk/one/a.pt
right as 1 portusctl restore -- /mnt/disk/one/a.pt
right cmp /mnt/disk/bytes /mnt/disk/one/a.pt
wrong as 2 portusctl versions -- /mnt/disk/one/a.pt

echo "default bytes 1M" >/etc/portus/portusd.conf
right systemctl reload portusd.service
soon says 'portusd.conf is read again'
: >/etc/portus/portusd.conf
right systemctl reload portusd.service

pid=$(main)
kill -KILL "$pid"
soon another "$pid"
soon kept a.pt
mkdir -p /run/systemd/system/portusd.service.d
printf '[Service]\nWatchdogSec=4\n' >/run/systemd/system/portusd.service.d/soon.conf
right systemctl daemon-reload
right systemctl restart portusd.service
pid=$(main)
sleep 6
right test "$(main)" = "$pid" # it says that it lives
kill -STOP "$pid"
soon another "$pid"
right save b.pt
soon kept b.pt

right systemctl stop portusd.service
right test "$(systemctl show -P Result portusd.service)" = success
right save c.pt
soon kept c.pt # its socket has started it
right systemctl is-active portusd.service
right systemctl stop portusd.socket portusd.service
right test "$(systemctl show -P Result portusd.service)" = success
right test ! -e /run/portus/store.sock
right portusctl verify --store /var/lib/portus/portus.pool
[ $FAILED = 0 ] && echo "all was right" || {
    cat /tmp/log-1
    journalctl --no-pager -o short-monotonic -n 100
}
