# SPDX-License-Identifier: BSD-3-Clause
"""Seeds for the fuzzers: python3 seeds.py parsers|ring|far|store|carrier|pool DIRECTORY"""
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading


def number(value):
    """What number() of ring_fuzz.c and store_fuzz.c takes for a small value."""
    return bytes([0]) + struct.pack(">H", value)


def client_hello(name, secret):
    """What the openssl command says first to a store, with this key."""
    if not shutil.which("openssl"):
        return b""
    said = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)

        def hear():
            try:
                with server.accept()[0] as s:
                    s.settimeout(5)
                    said.append(s.recv(4096))
            except OSError:
                pass
        thread = threading.Thread(target=hear)
        thread.start()
        subprocess.run(["openssl", "s_client", "-tls1_3", "-psk_identity", name, "-psk", secret, "-connect",
                        f"127.0.0.1:{server.getsockname()[1]}"], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=10)
        thread.join()
    return b"".join(said)


def parsers():
    entry = struct.pack("<Qq16sII128sII", 5, 1 << 60, b"u" * 16, 1, 8, b"handle", 8, 0) + b"/d/file\0"

    def message(op, more=b"", flags=0):
        return struct.pack("<IHHIIQIiq", 0x50545553, 1, op, 40 + len(more), 3, 4096, flags, 0, 0) + more
    programs = [b"#!/usr/bin/env python3 -u\nprint()\n", b"#! /bin/sh"]
    for name in ("/bin/true", sys.executable):
        with open(name, "rb") as f:
            f.seek(0, 2)
            f.seek(max(0, f.tell() - 2500))
            tail = f.read()
            f.seek(0)
            programs.append(f.read(1500) + tail)
    # One whole ELF file of 64 bits: an interpreter, a section of needed versions, their names.
    names, needs = b"\0.shstrtab\0GLIBC_2.34\0.note.go.buildid\0", struct.pack("<HHIII", 1, 1, 0, 16, 0) + struct.pack("<IHHII", 0, 0, 2, 11, 0)
    at = 64 + 56
    body = b"/lib64/ld.so\0" + names + needs
    sections = b"".join(struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, where, size, link, 0, 1, 0) for name, kind, where, size, link in (
        (0, 0, 0, 0, 0), (1, 3, at + 13, len(names), 0), (22, 0x6ffffffe, at + 13 + len(names), len(needs), 1)))
    programs.append(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, at + len(body), 0, 64, 56, 1, 64, 3, 1) +
                    struct.pack("<IIQQQQQQ", 3, 4, at, 0, 0, 13, 13, 1) + body + sections)
    maps = b"".join(b"%x-%x rw-p %08x 08:01 %d  %s\n" % (4096 * i, 4096 * (i + 1), i, i, b"/a/b" * i) for i in range(1, 40))
    return {
        0: [message(op, b"x" * flags, flags) for op, flags in ((1, 0), (3, 0), (64, 1), (82, 100), (73, 0))],
        1: [b"PORTUS=require\nPORTUS_LOG=debug,json:/tmp/x\nPORTUS_RING_SIZE=16M\nPORTUS_STORE=unix:/run/s",
            b"PORTUS_MATCH=+:*.x:[a-c]?\\*\nPORTUS_EXCLUDE=[!]]*/a\nPORTUS_SAMPLE=99999999999999999999\nPORTUS_BANANA=1"],
        2: [b"PK\3\4rest of it", b"\x80\2c", b"\x93NUMPY\1\0", b"\x89HDF\r\n\x1a\n", struct.pack("<Q", 99) + b'{"a":'],
        3: ["a\"b\\\n\t\x1b\u00e9\U0001f600\u202e".encode() + b"\xff\xc3", b"\xf0\x9f\x98"],
        4: [entry, entry * 3, entry[:-4]],
        5: [b'[\n{"ph":"b","cat":"save","name":"save","ts":1.5,"id":"7.1","args":{"file":"/d/a\\"\\u00e9\\ud83d\\ude00","reason":"x"}},\n'
            b'{"ph":"e","cat":"save","name":"save","ts":9.5,"id":"7.1","args":{"size":9}},\n'
            b'{"ph":"X","cat":"wait","name":"end","ts":1,"dur":2.25,"args":{}},\n{"ph":"X","cat":"capture","args":{"bytes":7}},\n',
            b'[\n{"ph":"b","cat":"save","name":"save","id":"7.1","args":{"file":"/d/\\u'],
        6: [b"keep 3\nbytes 64G objects 100000 sessions 64\nuser 1000 bytes 1G\n# why\nuser root objects 5\n", b"bytes none\n"],
        7: [b"job \"7\"\\\n", b"/mnt/a b"],
        8: [b"alice " + b"0123456789abcdef" * 4 + b"\n# one\nbob " + b"f" * 64 + b"\n", b"alice 12\n"],
        9: programs,
        10: [b'portus_drained_files_total{job="a",mount="/"} 7\nportus_drain_lag_seconds_total{job="a"} 1.5\n'
             b"portus_capture_seconds_total 0.25\nportus_wait_seconds_total 1e-3\n", b"portus_drained_files_total -nan\n"],
        11: [b"settled=1 pinned=0 job=abc", b"/d/file@12", b"settled=9 pinned=9 job=" + b"j" * 4095],
        12: [maps, b"MemAvailable:   123456 kB\n", b"0::/a/b/c\n5:memory:/x\n", b"max\n", b"0123456789abcdef" * 2,
             b"7 (a) b) S 1 2 3", b"1000-2000 r-xp 00000000 fe:00 7 " + b"n" * 3000 + b"\n" + maps],
        13: [b"".join(struct.pack("<HB", 64 * i, 0x40) + struct.pack("<I", i) for i in range(100)),
             b"".join(bytes([*struct.pack("<HB", at & 0xffff, 0x40 | at >> 16)]) + b"\1\0\0\0" for at in range(384, 40000, 128))],
        14: [b"tcp://host:7470,rdma://[fe80::1%eth0]:1,tcp://a.b", b"tcp://", b"rdma://x:99999"],
        15: [client_hello("alice", "5a" * 32), client_hello("nobody", "00" * 32)],
        16: [message(1) + message(66, b"behind", 6) + message(73), message(64)[:39]],
    }


def ring():
    """Acts of ring_fuzz.c, four a turn."""
    def record(offset, at, length, file):
        return bytes([0, 0]) + number(offset) + b"\0" + number(at) + b"\0" + number(length) + number(file) + b"\0\0"

    def says(client, op, value, *descriptors):
        engaged = b"\0\1\0" if op == 1 else b""
        return bytes([16, client, op]) + number(value) + number(0) + b"\0\0" + \
            (b"\0" if op in (1, 5) else bytes([255, len(descriptors)])) + b"\0" + bytes(descriptors) + engaged
    engage = bytes([9]) + number(2) + b"\6\0\0\0"
    hello, file = says(1, 0, 1), says(1, 1, 2, 6)
    welcome = b"\x12\0\0\0" + number(0) + b"\3\0\0"
    done, pulled = b"\x12\1\0\0" + number(5) + b"\0\0\0", b"\x12\3\0\1" + number(4) + b"\0\0\0"
    yield b"\1" + record(0, 0, 100, 0) + record(100, 100, 200, 0) + record(0, 300, 50, 1) + engage
    yield b"\x41" + hello + file + hello + says(1, 3, 0) + says(1, 4, 0) + says(2, 0, 2) + b"\x13\0\1" + says(1, 5, 0, 6)
    yield b"\1" + welcome + engage + record(0, 0, 100, 2) + pulled + bytes([11]) + b"\0\x08" + done + done + b"\x13\1" + engage
    yield b"\0" + (record(5, 7, 99, 0) + bytes([6, 3])) * 6
    yield b"\x41" + welcome + hello + file + bytes([11, 2, 8]) + says(1, 1, 3, 6) + done + pulled + b"\x13\0\1" + done


def far():
    """Messages of far_fuzz.c, and answers."""
    describe, ring, draft = b"\1\0\1\0", b"\xf0\6\1\0\0\1\0\0", b"\xf0\7\1\0\1\0\0"
    yield ring + draft + describe + b"\xf0\x08\1\4\0\0\0\0" + b"\x40" * 40
    yield b"\xf0\0\1\2\0\0\0" + describe + b"\x40" * 30 + b"\x40" + describe
    yield ring + draft + describe + b"\xf0\x08\1\4\0\0\0\0" + b"\x40" * 40 + b"\xf0\x09\1\2\0\0\0" + describe + b"\xf0\0\1\2\0\4\0" + describe
    yield b"\xf0\x0b\1\0\0\0\0\0" + b"\xf0\x0c\1\0\1\0\0\0" * 3
    yield b"".join(bytes([0xf0, i, 1, 1, 0, 1, 0, 0]) for i in range(18))


def store():
    """What store_fuzz.c's two agents say: which, an op, right, its numbers, descriptors."""
    def says(who, op, value=0, size=b"", flags=number(0), *more):
        return bytes([who, op, 0]) + (bytes([value]) if op != 0 else b"") + (size or number(1)) + flags + b"\0" + b"".join(more)
    file, name = b"\7", b"\3"
    records = bytes([3]) + (number(0) + number(0) + number(200) + number(1) + b"\0") * 3 + b"\0"
    lists = b"".join([number(100), b"\1\0\0"])
    draft = b"\0\1"
    for shared in (b"\0", b"\1"):
        hello = shared + b"\0\0" + says(0, 0) + says(1, 0)
        yield hello + says(0, 1, 1, number(7), number(1), file) + says(1, 2, 2, number(7), number(1), file, lists) + says(0, 19)
        yield hello + says(0, 5, 0, number(0), number(0), records) + says(0, 7, 1, number(0), draft, name) + says(0, 9, 0, b"\3") + says(0, 11, 1)
        yield hello + says(0, 5, 0, number(0), number(0), records) + says(0, 26, 1, number(0), draft, name, lists) + says(0, 9, 0, b"\3") + says(0, 11, 1)
        yield hello + says(0, 17) + says(0, 18, 1, number(0) + b"\1", number(500)) + says(0, 14) + says(0, 15) + says(0, 16)
        yield hello + says(0, 3, 1, number(0), number(0), name) + says(1, 4, 1, number(0), number(0), lists) + says(0, 13, 1) + says(0, 22)


def carrier():
    """The agent of carrier_fuzz.c, and its store."""
    ring, file, draft = bytes([0, 0, 1, 1, 0, 0]), bytes([0, 1, 17, 2, 0, 0]), bytes([0, 2, 2, 3, 0, 0])
    fetch_ring = b"\x65\0\1\0\0\0\x10\0\0"
    fetch_file, check = b"\x65\0\2\0\0\0\x10\0\1", b"\x65\3\2\0\0\0\0\0\0"
    done = b"\x65\4\2\0\0\0\0\0\0"
    yield ring + fetch_ring * 3 + bytes([0, 0, 0, 1, 0, 0]) + fetch_ring
    yield file + fetch_file * 3 + check + done + fetch_file
    yield draft + bytes([0, 5, 0, 3, 0, 0]) + b"\x65\5\1\0\0\4\0\0\0" + b"\x65\6\1\0\0\4\0\0\0\0\x64" + bytes([0, 3, 0, 2, 0, 0, 0, 4, 0, 3, 0, 0])
    yield file + ring + b"".join(bytes([0x65, i, 1, 0, 0, 0, 1, 0, 0]) for i in range(10))


def pool():
    """Patches of pool_patch.h: which CRCs are made right, then where, how many, what."""
    for flags in (0, 1, 2, 4, 7, 15, 16, 23, 48):
        for where in (8, 40, 300, 4400, 8500, 12600):
            yield bytes([flags]) + struct.pack("<I", where)[:3] + b"\x08\xff\xff\xff\xff\xff\xff\xff\x7f" + struct.pack("<I", where + 64)[:3] + b"\1\0"


target, directory = sys.argv[1:]
made = globals()[target]()
if target == "parsers":
    made = [bytes([which]) + seed for which, seeds in made.items() for seed in seeds]
for i, seed in enumerate(made):
    with open(os.path.join(directory, f"seed-{i}"), "wb") as f:
        f.write(seed)
