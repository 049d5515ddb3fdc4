# SPDX-License-Identifier: BSD-3-Clause
"""Short words for the test scripts: a fresh directory, a run, a failure, a skip."""
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys

from . import agents, program, state, summary
from . import writer as paper

TOP = os.environ.get("TEST_DIR", os.getcwd())
JOB = os.environ.get("PORTUS_JOB", f"test-{os.getpid()}")
WRITER = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "writer.py")]
_count = itertools.count()


def fresh(top=TOP):
    """A new directory."""
    path = os.path.join(top, f"d{next(_count)}")
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def fail(text, outcome=None):
    print((outcome.tail(30) + "\n" if outcome else "") + f"FAILED: {text}", file=sys.stderr, flush=True)
    sys.exit(1)


def skip(text):
    print(text, file=sys.stderr)
    sys.exit(77)


def expect(condition, text, outcome=None):
    if not condition:
        fail(text, outcome)


def test_program(name):
    """A program of tests/shim."""
    path = os.path.join(program.BUILD, "tests/shim", name)
    expect(os.access(path, os.X_OK), f"{path} is not built: make tests")
    return path


def end_stores(pool):
    """Tells the portusd of the pool to end; it does."""
    for pid in agents.stores(pool):
        agents.kill_one(pid, signal.SIGTERM)
    expect(agents.until(lambda: not agents.stores(pool), 10), "portusd does not end")


def same(plain, other, what, outcome=None):
    said = state.differences(state.snapshot(plain), state.snapshot(other))
    expect(not said, f"{what}: " + "; ".join(said), outcome)


def compared(argv, what, mode="all", timeout=60, captures=None, top=TOP, **more):
    """Runs argv plain and with the shim, in directories below top; the same end, output and files."""
    a, b = fresh(top), fresh(top)
    plain = program.run(argv, a, program.environment(JOB), timeout)
    outcome = program.run(argv, b, program.environment(JOB, mode, **more), timeout)
    expect(not plain.late and not outcome.late, f"{what}: {outcome.how()}, plain {plain.how()}", outcome)
    expect(outcome.status == plain.status, f"{what}: {outcome.how()}, plain {plain.how()}", outcome)
    expect(outcome.out == plain.out, f"{what}: other output", outcome)
    same(a, b, what, outcome)
    if captures is not None:
        expect((summary.captured(outcome.err) or 0) >= captures, f"{what}: captured too few files", outcome)
    return outcome


def writer(ops, directory, mode="all", **more):
    """Starts the writer; its standard input is a pipe."""
    env = program.environment(JOB, mode, **more)
    return program.start([*WRITER, json.dumps(ops)], directory, env, stdin=subprocess.PIPE)


def until_line(process, word):
    """Reads the writer's output up to that line; fails where it ends before."""
    for line in process.stdout:
        if line.strip() == word.encode():
            return
    fail(f"the program ended before {word!r}: {process.stderr.read().decode()}")


def whole(ops, directory, what, outcome=None):
    """The directory is as after the last operation."""
    last, disk = paper.states(ops)[-1], paper.look(directory)
    wrong = [n for n in sorted(last.keys() | disk.keys()) if last.get(n, 0) != disk.get(n, 0)]
    expect(not wrong, f"{what}: {wrong} differ", outcome)


def an_agent(seconds=10):
    """(keeper, worker) as soon as both are there."""
    found = agents.until(lambda: None not in (p := agents.pair(JOB)) and p, seconds)
    expect(found, f"no agent of keeper and worker: {agents.pids(JOB)}")
    return found
