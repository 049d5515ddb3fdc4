# SPDX-License-Identifier: BSD-3-Clause
# Processes without the shim meet a file that is being saved: many of them at once over a slow drain,
# with O_NONBLOCK, before it is captured, to write it too, and the program itself by name.
# Right: each sees what has been written so far, or is told EAGAIN, which passes; nobody's bytes are lost.
# run: script root slow timeout=200
import os
import time

from lib import program, trial
from lib.saver import CREATE, Saver, piece, slowed

LEASE_TIME = "/proc/sys/fs/lease-break-time"
MIB = 1 << 20


def content(path, flags=os.O_RDONLY):
    fd = os.open(path, flags)
    try:
        data = b""
        while more := os.read(fd, 1 << 22):
            data += more
        return data
    finally:
        os.close(fd)


def nonblocking():
    saver = Saver()
    saver.do(CREATE.format("a.ckpt") + "os.write(fd, piece(1))")
    told, end = 0, time.monotonic() + 20
    while True:
        try:
            data = content(saver.path("a.ckpt"), os.O_RDONLY | os.O_NONBLOCK)
            break
        except BlockingIOError:
            told += 1
            trial.expect(time.monotonic() < end, "EAGAIN does not pass")
            time.sleep(0.01)
    trial.expect(data == piece(1), f"O_NONBLOCK: {len(data)} bytes")
    saver.do("os.write(fd, piece(2)); os.close(fd)")
    saver.end(1)
    trial.expect(content(saver.path("a.ckpt")) == piece(1) + piece(2), "after O_NONBLOCK the file is another")
    trial.expect(told > 0, "a captured file was opened at once")


def opened_before():
    saver = Saver()
    saver.do(CREATE.format("a.ckpt"))
    fd = os.open(saver.path("a.ckpt"), os.O_RDONLY)
    for seed in (1, 2):
        saver.do(f"os.write(fd, piece({seed}))")
        data = b""
        while more := os.read(fd, 1 << 22):
            data += more
        trial.expect(data == piece(seed), f"opened before: {len(data)} bytes of write {seed}")
    os.close(fd)
    saver.do("os.close(fd)")
    saver.end(0)


def writes_too(flags):
    saver = Saver()
    saver.do(CREATE.format("a.ckpt") + "os.write(fd, piece(1)); os.write(fd, piece(2))")
    fd = os.open(saver.path("a.ckpt"), flags)
    if flags & os.O_APPEND:
        os.write(fd, b"other")
        saver.do("os.lseek(fd, 0, 2); os.write(fd, piece(3, 7)); os.close(fd)")
        wanted = piece(1) + piece(2) + b"other" + piece(3, 7)
    else:
        os.pwrite(fd, b"other", 8 * MIB - 2)
        saver.do("os.pwrite(fd, piece(3, 7), 0); os.pwrite(fd, b'x', (8 << 20) + 2); os.close(fd)")
        wanted = piece(3, 7) + piece(1)[7:-2] + b"othex" + piece(2)[3:]
        wanted = wanted[:8 * MIB + 2] + b"x" + wanted[8 * MIB + 3:]
    os.close(fd)
    saver.end(1)
    trial.expect(content(saver.path("a.ckpt")) == wanted, "two writers: other bytes")


def again_by_name():
    saver = Saver()
    saver.do("f = open('a.ckpt', 'wb'); f.write(piece(1)); f.write(piece(2, 9)); f.flush()")
    saver.do("g = open('a.ckpt', 'rb'); data = g.read(); assert data == piece(1) + piece(2, 9), len(data)")
    saver.do("f.write(piece(3)); f.flush(); data = g.read(); assert data == piece(3), len(data)")
    saver.do("h = open('a.ckpt', 'r+b'); h.write(b'head'); h.flush(); f.write(b'tail'); f.flush()")
    saver.do("g.seek(0); data = g.read(); assert data == b'head' + (piece(1) + piece(2, 9) + piece(3))[4:] + b'tail'")
    saver.do("f.close(); g.close(); h.close()")
    saver.end(1)


def crowd(count=64, size=4 * MIB):
    """The agent runs a small part of the time, and the kernel waits 5 s for a lease."""
    with open(LEASE_TIME, encoding="ascii") as f:
        before = f.read()
    saver, readers = Saver(), []
    saver.do(CREATE.format("warm.ckpt") + "os.write(fd, piece(1)); os.close(fd)")
    env = program.environment(trial.JOB)
    try:
        with open(LEASE_TIME, "w", encoding="ascii") as f:
            f.write("5")
        with slowed(trial.JOB):
            for i in range(count):
                saver.do(CREATE.format(f"{i}.ckpt") +
                         f"os.write(fd, piece({i}, {size})); os.write(fd, b'end'); os.close(fd)")
                readers.append(program.start(["cat", f"{i}.ckpt"], saver.directory, env))
            for i, reader in enumerate(readers):
                out = program.finish(reader, 60)
                trial.expect(out.out == piece(i, size) + b"end", f"reader {i} saw {len(out.out)} bytes, {out.how()}")
            saver.end(count // 2)
    finally:
        with open(LEASE_TIME, "w", encoding="ascii") as f:
            f.write(before)


nonblocking()
opened_before()
writes_too(os.O_RDWR)
writes_too(os.O_WRONLY | os.O_APPEND)
again_by_name()
crowd()
