# SPDX-License-Identifier: BSD-3-Clause
# CPython's own tests of files, processes and archives (Debian: libpython3.x-testsuite).
# Right: each test passes, fails or is skipped as it does without the shim.
# run: script timeout=300
import os
import subprocess
import sys

from lib import trial, world

COLLECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collect.py")
QUICK = "fileio filecmp posix shutil mmap os tempfile dbm_dumb".split()
MORE = """io zipfile mailbox glob dbm largefile tarfile subprocess dbm_gnu dbm_ndbm shelve pickle pathlib bufio file file_eintr
fileinput gzip bz2 lzma wave zipimport zipapp py_compile compileall import fcntl fork1 wait3 wait4 popen signal
threading select logging cmd_line_script runpy tracemalloc sqlite3.test_dbapi sqlite3.test_backup
sqlite3.test_dump sqlite3.test_transactions asyncio.test_subprocess multiprocessing_fork
multiprocessing_forkserver multiprocessing_spawn""".split()


def python():
    """The first that has its tests with it: packages of Python often leave them out."""
    for path in (sys.executable, "/usr/bin/python3"):
        code = "import sys, test.test_io; print(sys.version.split()[0])"
        found = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return path, found.stdout.strip()
    trial.skip("no Python with its tests: libpython3.x-testsuite")


def module(path, name):
    def once(place):
        """{a test: all that it said, in order}"""
        os.mkdir(os.path.join(place.path, "tmp"))
        lines = os.path.join(trial.TOP, "lines")
        if os.path.exists(lines):
            os.unlink(lines)
        out = place.run([path, COLLECT, lines, name], 900, LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="",
                        TMPDIR=os.path.join(place.path, "tmp"))
        found = {"(end)": out.how() if out.late or out.status < 0 else "ended"}
        if os.path.exists(lines):
            with open(lines, encoding="utf-8") as f:
                for test, word in (line.rstrip("\n").rsplit("\t", 1) for line in f):
                    found[test] = f"{found[test]}, {word}" if test in found else word
        return found
    return once


def has(path, name):
    """Some packages leave a few out."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('test.test_{name}') is None)"
    return subprocess.run([path, "-c", code], check=False).returncode == 0 or print(f"test_{name} is not in this Python")


path, version = python()
suite = world.Suite("cpython")
for name in QUICK + (MORE if world.WHOLE else []):
    if has(path, name):
        suite.case(f"test_{name}", module(path, f"test.test_{name}"))
suite.end(version)
