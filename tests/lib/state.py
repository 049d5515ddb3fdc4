# SPDX-License-Identifier: BSD-3-Clause
"""What stands on disk, as a process without the shim sees it."""
import hashlib
import os
import stat
import time

# A reader waits while the agent finishes a file. Much longer than this and the
# kernel, not the agent, ended the lease.
PATIENCE = 20

# How much more than in the plain run, and than its size, a file may occupy: extents
# differ a little, and the room for a gap may be reserved.
SLACK = 256 * 1024
FOLIO = 2 << 20  # ext4 keeps blocks for so much where a write's source ends in a fault


class Entry:
    """One name: what a program can rely on."""

    def __init__(self, path):
        st = os.lstat(path)
        self.kind = stat.S_IFMT(st.st_mode)
        self.digest = ""
        self.waited = 0.0
        self.blocks = 0
        if stat.S_ISREG(st.st_mode):
            begin = time.monotonic()
            with open(path, "rb", buffering=0, opener=lambda p, f: os.open(p, f | os.O_NOFOLLOW)) as f:
                self.waited = time.monotonic() - begin
                self.digest = hashlib.file_digest(f, "sha256").hexdigest() \
                    if hasattr(hashlib, "file_digest") else _digest(f)
                st = os.fstat(f.fileno())
            self.blocks = st.st_blocks * 512
        elif stat.S_ISLNK(st.st_mode):
            self.digest = os.readlink(path)
        self.mode, self.owner = oct(st.st_mode), f"{st.st_uid}:{st.st_gid}"
        self.size = st.st_size if not stat.S_ISDIR(st.st_mode) else 0
        self.links = st.st_nlink if not stat.S_ISDIR(st.st_mode) else 0
        self.xattrs = {name: os.getxattr(path, name, follow_symlinks=False)
                       for name in sorted(os.listxattr(path, follow_symlinks=False))}


def _digest(f):
    h = hashlib.sha256()
    while piece := f.read(1 << 20):
        h.update(piece)
    return h.hexdigest()


def snapshot(directory):
    """{relative path: Entry} of everything below directory."""
    found = {}
    for top, dirs, files in os.walk(directory):
        for name in sorted(dirs) + sorted(files):
            path = os.path.join(top, name)
            found[os.path.relpath(path, directory)] = Entry(path)
    return found


def differences(plain, other, loose=(), slack=None):
    """Sentences that name what differs; loose names files whose bytes may, slack is bytes on the disk."""
    said = []
    for name in sorted(plain.keys() | other.keys()):
        if name not in other or name not in plain:
            said.append(f"{name}: {'missing' if name in plain else 'only with the shim'}")
            continue
        a, b = plain[name], other[name]
        fields = ["kind", "mode", "owner", "links", "xattrs"]
        if os.path.basename(name) not in loose:
            fields += ["size", "digest"]
        for field in fields:
            x, y = getattr(a, field), getattr(b, field)
            if x != y:
                said.append(f"{name}: {field} is {y}, without the shim {x}")
        if b.blocks > max(a.blocks, b.size) + (slack or SLACK):
            said.append(f"{name}: occupies {b.blocks} bytes, without the shim {a.blocks}")
        if b.waited > PATIENCE:
            said.append(f"{name}: a reader waited {b.waited:.1f} s for it")
    return said
