# SPDX-License-Identifier: BSD-3-Clause
# What the guest's scripts share: the arguments of the boot, and the pool on its NVDIMM. Sourced.
#   portus.build=DIR portus.kind=fsdax|devdax, and what the script wants

value() { sed -n "s/.*portus\.$1=\([^ ]*\).*/\1/p" /run/asked; }

BUILD=$(value build) KIND=$(value kind)
CTL=$BUILD/portusctl
export DM_DISABLE_UDEV=1 # there is none: dmsetup makes the nodes itself
mkdir -p /mnt/disk /mnt/pmem
case $KIND in
fsdax) POOL=/mnt/pmem/pool ;;
devdax) POOL=/dev/dax0.0 ;;
esac

# A namespace on the NVDIMM, which is there from then on.
make_namespace() {
    ndctl create-namespace -f -e namespace0.0 -m "$KIND" -M mem >/dev/null
    [ "$KIND" != fsdax ] || mkfs.ext4 -q -b 4096 -F /dev/pmem0
}

mount_pmem() {
    cat /sys/bus/nd/devices/ndbus0/wait_probe >/dev/null
    [ "$KIND" != fsdax ] || mount -o dax /dev/pmem0 /mnt/pmem
}

domain() { cat /sys/bus/nd/devices/region0/persistence_domain; }

# As the shim starts it; a slow guest's shim would not wait for it. [LIBRARY]: loaded into it
start_agent() {
    LD_PRELOAD=${1-} "$BUILD/portus-agent" >/dev/null 2>&1 &
    until grep -q '@portus/' /proc/net/unix; do sleep 0.1; done
}

# /mnt/disk/exported at /mnt/nfs, by a kernel's server that gives a dead client's leases up soon; or 1, and a line says why.
mount_nfs() {
    if ! command -v exportfs >/dev/null || ! command -v rpc.nfsd >/dev/null; then
        echo 'missing nfs: no nfs-kernel-server'
        return 1
    fi
    mkdir -p /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery /mnt/disk/exported /mnt/nfs
    mount -t nfsd nfsd /proc/fs/nfsd
    echo 10 >/proc/fs/nfsd/nfsv4leasetime
    echo 10 >/proc/fs/nfsd/nfsv4gracetime
    exportfs -o rw,fsid=0,no_root_squash,insecure,no_subtree_check '*:/mnt/disk/exported'
    rpc.mountd -N 3 >/dev/null 2>&1
    rpc.nfsd -N 3 4
    mount -t nfs4 -o vers=4.2,noresvport localhost:/ /mnt/nfs && return
    echo 'missing nfs: not mounted'
    return 1
}
