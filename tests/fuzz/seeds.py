# SPDX-License-Identifier: BSD-3-Clause
"""Seeds for parsers_fuzz.c: python3 seeds.py DIRECTORY"""
import os
import struct
import sys

ENTRY = struct.pack("<Qq16sII128sII", 5, 1 << 60, b"u" * 16, 1, 8, b"handle", 8, 0) + b"/d/file\0"
SEEDS = {
    0: [struct.pack("<IHHIIQIiq", 0x50545553, 1, op, 40, 3, 4096, flags, 0, 0) + b"x" * flags
        for op, flags in ((1, 0), (3, 0), (64, 1), (82, 100), (73, 0))],
    1: [b"PORTUS=require\nPORTUS_LOG=debug,json:/tmp/x\nPORTUS_RING_SIZE=16M\nPORTUS_STORE=unix:/run/s",
        b"PORTUS_MATCH=+:*.x:[a-c]?\\*\nPORTUS_EXCLUDE=[!]]*/a\nPORTUS_SAMPLE=99999999999999999999\nPORTUS_BANANA=1"],
    2: [b"PK\3\4rest of it", b"\x80\2c", b"\x93NUMPY\1\0", b"\x89HDF\r\n\x1a\n", struct.pack("<Q", 99) + b'{"a":'],
    3: ["a\"b\\\n\t\x1b\u00e9\U0001f600\u202e".encode() + b"\xff\xc3", b"\xf0\x9f\x98"],
    4: [ENTRY, ENTRY * 3, ENTRY[:-4]],
    5: [b'[\n{"ph":"b","cat":"save","name":"save","ts":1.5,"id":"7.1","args":{"file":"/d/a\\"\\u00e9\\ud83d\\ude00","reason":"x"}},\n'
        b'{"ph":"e","cat":"save","name":"save","ts":9.5,"id":"7.1","args":{"size":9}},\n'
        b'{"ph":"X","cat":"wait","name":"end","ts":1,"dur":2.25,"args":{}},\n{"ph":"X","cat":"capture","args":{"bytes":7}},\n',
        b'[\n{"ph":"b","cat":"save","name":"save","id":"7.1","args":{"file":"/d/\\u'],
    6: [b"keep 3\nbytes 64G objects 100000 sessions 64\nuser 1000 bytes 1G\n# why\nuser root objects 5\n", b"bytes none\n"],
    8: [b"alice " + b"0123456789abcdef" * 4 + b"\n# one\nbob " + b"f" * 64 + b"\n", b"alice 12\n"],
    7: [b"job \"7\"\\\n", b"/mnt/a b"],
}

for number, seeds in SEEDS.items():
    for i, seed in enumerate(seeds):
        with open(os.path.join(sys.argv[1], f"seed-{number}-{i}"), "wb") as f:
            f.write(bytes([number]) + seed)
