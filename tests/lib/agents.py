# SPDX-License-Identifier: BSD-3-Clause
"""The agents of a job: who runs, what they hold, and their end.

Each test has a PORTUS_JOB of its own and therefore an agent of its own, so that
nothing here ever touches an agent that a test did not start.
"""
import os
import re
import signal
import time


def _read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as f:
            return f.read()
    except OSError:
        return b""


def pids(job):
    """Process ids of this job's agent: keeper and worker, and any that is just starting."""
    wanted = {b"PORTUS_JOB=" + job.encode(), b"--job=" + job.encode(), job.encode()}
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if not _read(pid, "comm").startswith(b"portus-"):
            continue
        words = _read(pid, "environ").split(b"\0") + _read(pid, "cmdline").split(b"\0")
        if wanted & set(words) and b") Z" not in _read(pid, "stat"):
            found.append(int(pid))
    return sorted(found)


def _stat(pid, field):
    """A number of /proc/PID/stat: 4 the parent, 6 the session."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[field - 3]) if fields else 0


def others(job):
    """Processes of this job, started by a test and still there, that are no agent."""
    ours, found = pids(job), []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if b"PORTUS_JOB=" + job.encode() in _read(pid, "environ").split(b"\0") \
                and pid not in ours and b") Z" not in _read(pid, "stat"):
            found.append(pid)
    return found


def pair(job):
    """(keeper, worker), each None while it is not there; the keeper leads a session."""
    found = pids(job)
    keeper = next((p for p in found if _stat(p, 6) == p), None)
    return keeper, next((p for p in found if keeper and _stat(p, 4) == keeper), None)


def held(job, directory):
    """Files below directory that this job's agent has open."""
    top, found = os.path.realpath(directory) + "/", []
    for pid in pids(job):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target.startswith(top):
                    found.append(target)
        except OSError:
            pass
    return sorted(set(found))


def address(job):
    """The address that this job's agent listens at, or None."""
    inodes = {re.sub(r"\D", "", os.readlink(f"/proc/{pid}/fd/{fd}"))
              for pid in pids(job) for fd in os.listdir(f"/proc/{pid}/fd")}
    with open("/proc/net/unix", encoding="utf-8") as f:
        lines = [line.split() for line in f]
    found = [w[7] for w in lines if len(w) > 7 and w[6] in inodes and w[7].startswith("@portus/")]
    return "\0" + found[0][1:] if found else None


def kill(job, number=signal.SIGKILL):
    """Sends a signal to all of this job's agent; returns to how many processes."""
    count = 0
    for pid in pids(job):
        count += kill_one(pid, number)
    return count


def kill_one(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
        return 1
    except (ProcessLookupError, TypeError):
        return 0


def until(condition, seconds, step=0.02):
    """Waits until condition() is true; returns its last value."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(step)
    return value


def stores(pool, name="portusd"):
    """The portusd that serve the pool; or what else of that name has it as an argument."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(name.encode()) and os.fsencode(pool) in words:
            found.append(int(pid))
    return found
