# SPDX-License-Identifier: BSD-3-Clause
# fio writes by several engines, in several orders and sizes, and verifies what it reads back.
# Right: it finds what it wrote, at once and once more without the shim; its counts, and the bytes where they
# do not depend on the time, are as without the shim. (libaio and io_uring make system calls of their own.)
# run: script timeout=300
import itertools
import os

from lib import program, trial, world

ENGINES = "sync psync vsync pvsync pvsync2 mmap libaio io_uring posixaio".split()
ORDERS = "write randwrite randrw".split()
SIZES = "bs=4k", "bs=64k", "bsrange=512-200k --bs_unaligned=1"
# fio lays its files out before it begins, unless it is told to create them as it goes.
CREATE = "--fallocate=none --create_on_open=1"
SYNCS = "", "--fsync=8", "--fdatasync=5", "--end_fsync=1", "--fsync_on_close=1"
OTHER = f"""
{CREATE} --ioengine=sync --rw=write --bs=64k --numjobs=3
{CREATE} --ioengine=psync --rw=randwrite --bs=16k --numjobs=3 --thread
{CREATE} --ioengine=psync --rw=write --bs=128k --nrfiles=7 --file_service_type=random
{CREATE} --ioengine=psync --rw=randwrite --bs=8k --nrfiles=5 --openfiles=2 --fsync=16
{CREATE} --ioengine=vsync --rw=write --bs=32k --numjobs=2 --nrfiles=3 --end_fsync=1
{CREATE} --ioengine=psync --rw=write --bs=64k --verify_backlog=8
{CREATE} --ioengine=psync --rw=randwrite --bs=64k --verify_async=2 --verify_backlog=16
{CREATE} --ioengine=sync --rw=write:8k --bs=16k
{CREATE} --ioengine=psync --rw=rw --bs=1m
{CREATE} --ioengine=pvsync --rw=randwrite --bs=1m
{CREATE} --ioengine=psync --rw=randwrite --bs=4k --verify=md5
{CREATE} --ioengine=psync --rw=write --bs=64k --size=64m --numjobs=2 --group_reporting
{CREATE} --ioengine=psync --rw=write --bs=64k --io_size=32m
{CREATE} --ioengine=psync --rw=write --bs=64k --offset=1m --offset_increment=1m --numjobs=2
{CREATE} --ioengine=psync --rw=write --bs=64k --sync_file_range=write:16
{CREATE} --ioengine=psync --rw=write --bs=64k --direct=1
{CREATE} --ioengine=psync --rw=write --bs=64k --sync=1
{CREATE} --ioengine=pvsync2 --rw=write --bs=64k --invalidate=1 --fadvise_hint=1
{CREATE} --ioengine=mmap --rw=write --bs=64k --fallocate=posix --create_on_open=0 --numjobs=2
--fallocate=keep --ioengine=psync --rw=write --bs=64k
--fallocate=posix --ioengine=psync --rw=randwrite --bs=64k
--fallocate=truncate --ioengine=sync --rw=write --bs=64k
--overwrite=1 --ioengine=psync --rw=randwrite --bs=64k
--file_append=1 --ioengine=sync --rw=write --bs=64k
""".strip().splitlines()
QUICK = f"""
{CREATE} --ioengine=sync --rw=write --bs=64k
{CREATE} --ioengine=psync --rw=randwrite --bs=4k --fsync=64
{CREATE} --ioengine=pvsync --rw=rw --bsrange=512-200k --bs_unaligned=1
{CREATE} --ioengine=vsync --rw=write --bs=64k --numjobs=2 --nrfiles=2 --end_fsync=1
{CREATE} --ioengine=libaio --rw=randwrite --bs=64k
{CREATE} --ioengine=io_uring --rw=write --bs=64k
--ioengine=mmap --rw=write --bs=64k
""".strip().splitlines()
FIO = "fio --name=job --directory=files --size=8m --randseed=7 --verify_state_save=0 --output-format=terse --terse-version=3"


def whole():
    for engine, order, size in itertools.product(ENGINES, ORDERS, SIZES):
        if engine != "mmap" or "unaligned" not in size:
            yield f"{CREATE if engine != 'mmap' else ''} --ioengine={engine} --rw={order} --{size}"
    for engine, order, sync in itertools.product(("sync", "psync", "mmap"), ORDERS[:2], SYNCS[1:]):
        yield f"{CREATE if engine != 'mmap' else ''} --ioengine={engine} --rw={order} --bs=64k {sync}"
    yield from OTHER


def told(out):
    """How it ended and, of each job: its errors, bytes and calls."""
    jobs = [line.split(";") for line in out.out.decode().splitlines() if line.startswith("3;")]
    return out.how(), [(j[4], j[5], j[46]) for j in jobs]


def job(words):
    def once(place):
        os.mkdir(os.path.join(place.path, "files"))
        found = {}
        checksum = "" if "--verify=" in words else "--verify=crc32c"
        argv = f"{FIO} {checksum} {words}".split()
        found["write and verify"] = told(place.run(argv, 120))
        found["verify"] = told(place.run([*argv, "--verify_only"], 120, mode=None))
        for path in os.listdir(os.path.join(place.path, "files")):
            os.unlink(os.path.join(place.path, "files", path))
        argv = f"{FIO} {words} --verify=pattern --verify_pattern=%o --do_verify=0".split()
        found["write"] = told(place.run(argv, 120))
        return found | place.tree("files")
    return once


world.tools("fio")
suite = world.Suite("fio")
for words in whole() if world.WHOLE else QUICK:
    suite.case(" ".join(words.replace(CREATE, "").split()), job(words))
suite.end(program.run(["fio", "--version"], trial.TOP, program.environment(trial.JOB)).out.decode().strip())
