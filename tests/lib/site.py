# SPDX-License-Identifier: BSD-3-Clause
"""A program that saves, for systems that have little: C, or Python without packages."""
import hashlib

# What torch.save of a large model looks like to the shim: an archive's first bytes, large writes, small
# ones in between, a patch. Ends at once afterwards. Argument: the file, and MiB.
SAVE = r"""
import os, sys
path, mib = sys.argv[1], int(sys.argv[2])
block = bytes((i * 7 + i // 251) & 255 for i in range(1 << 20))
with open(path, "wb", buffering=0) as f:
    f.write(b"PK\x03\x04" + block)
    for i in range(mib):
        f.write(i.to_bytes(8, "little"))
        f.write(block)
    f.seek(17)
    f.write(b"patched")
print("saved", os.getpid())
"""


def right(mib):
    """SHA-256 of what SAVE writes."""
    block = bytes((i * 7 + i // 251) & 255 for i in range(1 << 20))
    whole = bytearray(b"PK\x03\x04" + block)
    for i in range(mib):
        whole += i.to_bytes(8, "little") + block
    whole[17:24] = b"patched"
    return hashlib.sha256(whole).hexdigest()


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()
