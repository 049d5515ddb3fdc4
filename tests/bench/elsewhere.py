# SPDX-License-Identifier: BSD-3-Clause
"""The rows about programs that have nothing to do with checkpoints.

Plain, with an empty preloaded library, and with the shim, in turn. Where valgrind
is installed the instructions of a program are counted, too: they hardly differ
from run to run, as times do.
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import programs
from lib import program

CALLS = os.path.join(program.BUILD, "tests/bench/calls")
ROOT = os.path.dirname(os.path.dirname(programs.HERE))


def empty_library(directory):
    """A shared library with nothing in it."""
    source, library = os.path.join(directory, "empty.c"), os.path.join(directory, "empty.so")
    with open(source, "w") as f:
        f.write("void nothing(void);\nvoid nothing(void)\n{\n}\n")
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    return library


def variants(directory):
    return {"plain": None, "empty": empty_library(directory), "shim": program.SHIM}


def source_tree():
    found = []
    for top, directories, names in os.walk(ROOT):
        directories[:] = [d for d in directories if not d.startswith((".", "build"))]
        found += [os.path.join(top, name) for name in sorted(names)]
    return found[:400]


def calls(options, progress):
    """Of each kind of call: ns that it takes plainly, ns that the shim adds."""
    found, names = {}, "\n".join(source_tree())
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        ways = variants(directory)
        for number in range(options.processes):
            progress(f"calls: process {number + 1} of {options.processes}")
            for key, library in ways.items():
                out = subprocess.run([CALLS, directory, "400"], input=names, text=True, check=True,
                                     env=programs.environment("bench-calls", library),
                                     stdout=subprocess.PIPE).stdout
                for call, values in json.loads(out).items():
                    entry = found.setdefault(call, {k: {"ns": [], "added": []} for k in ways})
                    entry[key]["ns"].append(values["ns"])
                    entry[key]["added"].append(values["added"])
    return found


def repository(directory):
    """A git repository of a thousand small files, nothing changed in it."""
    where = os.path.join(directory, "repository")
    for i in range(1000):
        os.makedirs(os.path.join(where, f"d{i % 20}"), exist_ok=True)
        with open(os.path.join(where, f"d{i % 20}", f"f{i}"), "w") as f:
            f.write(f"{i}\n")
    git = ["git", "-C", where, "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for words in ["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"], ["status", "--short"]:
        subprocess.run(git + words, check=True, stdout=subprocess.DEVNULL)
    return where


def one_run(argv, env, actions):
    """Seconds until it ended, and of its processor time."""
    began = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    took = time.perf_counter() - began
    if status != 0:
        raise RuntimeError(f"{argv}: status {status}")
    return took, usage.ru_utime + usage.ru_stime


def instructions(argv, env):
    """Instructions of the program itself, without the kernel's; None: no valgrind."""
    tool = shutil.which("valgrind")
    if tool is None:
        return None
    done = subprocess.run([tool, "--tool=callgrind", "--callgrind-out-file=/dev/null", *argv], env=env,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found.group(1)) if found and done.returncode == 0 else None


def starts(options, progress):
    """Of each program: seconds from start to end, and instructions."""
    found = {}
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        ways = variants(directory)
        what = {"`python -c pass`": [sys.executable, "-c", "pass"]}
        git = shutil.which("git")
        if git:
            what["`git status`"] = [git, "-C", repository(directory), "status"]
        what["`true`"] = [shutil.which("true")]
        null = os.open("/dev/null", os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
        for name, argv in what.items():
            entry = found[name] = {key: {"wall": [], "processor": [], "instructions": None} for key in ways}
            envs = {key: programs.environment("bench-starts", library) for key, library in ways.items()}
            for number in range(options.starts):
                if number % 20 == 0:
                    progress(f"starts: {name}, run {number} of {options.starts}")
                for key in list(ways)[number % 3:] + list(ways)[:number % 3]:
                    wall, processor = one_run(argv, envs[key], actions)
                    entry[key]["wall"].append(wall)
                    entry[key]["processor"].append(processor)
            for key in ways:
                progress(f"starts: {name}, {key}, instructions")
                counts = [instructions(argv, envs[key]) for _ in range(3)]
                if None not in counts:
                    entry[key]["instructions"] = statistics.median(counts)
        os.close(null)
    return found
