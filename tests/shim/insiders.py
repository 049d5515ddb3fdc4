# SPDX-License-Identifier: BSD-3-Clause
# Processes of the job that have captured nothing themselves, forked or executed, meet files that were just
# closed, over a slow drain.
# Right: each sees sizes as they were written, by every call, and the times and modes that it sets stay; the shim
# says nothing of it.
# run: script timeout=120
import os
import sys

from lib import trial
from lib.saver import CREATE, Saver, slowed

MIB = 1 << 20
SIZE = 8 * MIB + 7
SEES = """
import ctypes, os, sys
libc, name, way = ctypes.CDLL(None, use_errno=True), sys.argv[1], sys.argv[2]
def size():
    if way == "stat": return os.stat(name).st_size
    if way == "lstat": return os.lstat(name).st_size
    if way == "fstatat": return os.stat(name, dir_fd=os.open(".", os.O_RDONLY)).st_size
    if way == "path": return os.fstat(os.open(name, os.O_PATH)).st_size
    if way == "scandir": return [e.stat().st_size for e in os.scandir(".") if e.name == name][0]
    if way == "statx":
        room = ctypes.create_string_buffer(256)
        assert libc.statx(-100, name.encode(), 0, 0x200, room) == 0
        return int.from_bytes(room[40:48], "little")
print(size())
"""
WAYS = ("stat", "lstat", "fstatat", "path", "scandir", "statx")
SETS = """
import os, sys
name, way = sys.argv[1], sys.argv[2]
if way == "utime": os.utime(name, (1000, 2000))
if way == "chmod": os.chmod(name, 0o4755)
if way == "touch": os.execvp("touch", ["touch", "-d", "@2000", name])
"""

saver = Saver(mode="default")
saver.do("import subprocess")
with slowed(trial.JOB):
    for i, way in enumerate(("du", *WAYS)):
        name = f"{i}.ckpt"
        saver.do("".join(CREATE.format(f"{n}.ckpt") + f"os.write(fd, piece(1, {SIZE})); os.close(fd); " for n in ("a", i)))
        command = ["du", "-b", name] if way == "du" else [sys.executable, "-c", SEES, name, way]
        saver.do(f"said = subprocess.run({command}, capture_output=True); "
                 f"assert int(said.stdout.split()[0]) == {SIZE} and not said.stderr, ({way!r}, said)")
    saver.do("".join(CREATE.format(f"{n}.ckpt") + f"os.write(fd, piece(1, {SIZE})); os.close(fd); " for n in "abd"))
    saver.do("said = subprocess.run(['dd', 'if=d.ckpt', 'iflag=nonblock', 'bs=64M'], capture_output=True); "
             f"assert len(said.stdout) == {SIZE}, said.stderr")
    saver.do(CREATE.format("f.ckpt") + f"os.write(fd, piece(1, {SIZE})); os.close(fd)")
    saver.do("child = os.fork(); child or os._exit(os.stat('f.ckpt').st_size != " + str(SIZE) + "); "
             "assert os.waitpid(child, 0)[1] == 0, 'forked'")
    for way in ("utime", "chmod", "touch"):
        saver.do(CREATE.format(f"{way}.ckpt") + f"os.write(fd, piece(1, {SIZE})); os.close(fd)")
        saver.do(f"subprocess.run({[sys.executable, '-c', SETS, way + '.ckpt', way]}, check=True)")
saver.end(8)
for way in ("utime", "touch"):
    said = os.stat(saver.path(f"{way}.ckpt")).st_mtime
    trial.expect(said == 2000, f"{way}: the file's time is {said}")
trial.expect(os.stat(saver.path("chmod.ckpt")).st_mode & 0o7777 == 0o4755, "chmod: the drain cleared the set-id bit")
for entry in os.scandir(saver.directory):
    trial.expect(entry.stat().st_size == SIZE, f"{entry.name}: {entry.stat().st_size} bytes")
