# SPDX-License-Identifier: BSD-3-Clause
# Runs in each of two guests: a network with soft-RoCE, then the commands that come by the console, one a line,
# each in a shell of its own in the background of none; after each "done STATUS".
#   portus.role=store|agent
set -u
BUILD=$(sed -n 's/.*portus\.build=\([^ ]*\).*/\1/p' /run/asked)
ROLE=$(sed -n 's/.*portus\.role=\([^ ]*\).*/\1/p' /run/asked)
case $ROLE in store) A=10.9.2.1 ;; agent) A=10.9.2.2 ;; esac
MAC=52:54:00:00:00:0${A##*.} # of a boot that both go on from, they had the same
export BUILD ROLE A
ulimit -l unlimited
mkdir -p /mnt/pmem /mnt/disk
hostname "$ROLE"
ip link set lo up
ip link set eth0 address $MAC mtu 4200
ip addr add $A/24 dev eth0
ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0 && echo "soft-RoCE $(cat /sys/class/infiniband/rxe0/ports/1/gids/1)"
stty -echo 2>/dev/null
echo ready
while IFS= read -r line; do
    [ "$line" != end ] || exit 0
    bash -c "$line"
    echo "done $?"
done
