# SPDX-License-Identifier: BSD-3-Clause
# Real programs (lib/cases.py) are killed together with their agent, at any instant.
# Right: what stands on disk is a state that the plain run passes through: all of its states
# are recorded, by pausing it after each call that changes a file. Only the names of captured
# files may be there before what was written earlier, with nothing in them.
# run: script needs=torch,safetensors timeout=600
import os
import random
import re
import signal
import subprocess
import sys
import time

from lib import agents, cases, program, trial

KILLS = int(os.environ.get("KILLS", "4"))  # a case and mode
RECORD = os.path.join(program.BUILD, "tests/kill/record")
# Imports once, with the shim; each line is a directory to run the case in, by a child.
SERVER = cases.HEAD + """
import signal
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.chdir(line.strip())
        exec(case)
        os._exit(0)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


def look(top):
    """The tree: of a file its bytes, of a link what it says, of a directory None."""
    found = {}
    for where, folders, names in os.walk(top):
        for name in folders + names:
            path = os.path.join(where, name)
            short = re.sub(r"\.tmp\w{6}$", ".tmp", os.path.relpath(path, top))  # Rust's tempfile
            try:
                if os.path.islink(path):
                    found[short] = os.readlink(path)
                elif os.path.isdir(path):
                    found[short] = None
                else:
                    with open(path, "rb") as f:
                        found[short] = f.read()
            except FileNotFoundError:
                pass
    return found


def record(case):
    """All states that a plain run of the case passes through, and its length in seconds."""
    d = trial.fresh()
    out_r, out_w = os.pipe()
    in_r, in_w = os.pipe()

    def ends():
        os.dup2(out_w, 103), os.dup2(in_r, 104)
        os.dup2(103, 3), os.dup2(104, 4)
        os.close(103), os.close(104)

    env = program.environment(trial.JOB, OMP_NUM_THREADS=1)
    p = subprocess.Popen([RECORD, program.python(), "-c", cases.HEAD + case], cwd=d, preexec_fn=ends,
                         close_fds=False, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    os.close(out_w), os.close(in_r)
    states = [{}]
    while os.read(out_r, 1):
        now = look(d)
        if now != states[-1]:
            states.append(now)
        os.write(in_w, b"x")
    os.close(out_r), os.close(in_w)
    said = p.stderr.read().decode()
    if p.wait() == 77:
        trial.skip("ptrace is not allowed here")
    trial.expect(p.returncode == 0, f"the plain run: exit status {p.returncode}\n{said}")
    os.system(f"rm -rf {d}")
    return states


def prefix(a, b):
    """Length of what two byte strings begin with alike."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def within(before, after, disk):
    """Whether disk is on the way from one state to the next: a write takes effect byte by byte."""
    if disk in (before, after):
        return True
    if disk.keys() != after.keys() or before.keys() != after.keys():
        return False
    differ = [n for n in after if before[n] != after[n]]
    if any(disk[n] != after[n] for n in after if n not in differ):
        return False
    for name in differ:
        old, new, have = before[name], after[name], disk[name]
        if not all(isinstance(x, bytes) for x in (old, new, have)):
            return False
        done = prefix(new, have)
        if have[done:] != old[done:] or len(have) < min(len(old), len(new)):
            return False
    return True


def passes(states, k, disk):
    """Whether disk is between state k - 1 and state k, but for files that come later and are empty."""
    early = {n for n, v in disk.items() if v == b"" and n not in states[k] and any(n in s for s in states[k:])}
    return within(states[max(k - 1, 0)], states[k], {n: v for n, v in disk.items() if n not in early})


class Server:
    """Runs a case in children of one process that has all imported."""

    def __init__(self, case, mode):
        env = program.environment(trial.JOB, mode, PORTUS_ORDER="strict", PORTUS_SUMMARY="0",
                                  OMP_NUM_THREADS=1)  # its threads do not survive a fork
        self.p = subprocess.Popen([program.python(), "-c", f"case = {case!r}\n" + SERVER], env=env, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        trial.expect(self.p.stdout.readline() == "ready\n", "the server does not start")

    def start(self, directory):
        self.p.stdin.write(directory + "\n")
        self.p.stdin.flush()
        return int(self.p.stdout.readline())

    def end(self):
        return int(self.p.stdout.readline())

    def close(self):
        self.p.stdin.close()
        self.p.wait(20)


seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))
chance = random.Random(seed)
total, ends = 0, set()
for name, case in cases.CASES.items():
    if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
        continue
    states = record(case)
    for mode in ("default", "all"):
        server = Server(case, mode)
        d = trial.fresh()
        begin = time.monotonic()
        server.start(d)
        trial.expect(server.end() == 0, f"{name}, {mode}: not killed, and ended badly")
        length = time.monotonic() - begin
        trial.expect(look(d) == states[-1], f"{name}, {mode}: not killed, and not as the plain run")
        for number in range(KILLS):
            os.system(f"rm -rf {d}")
            d = trial.fresh()
            child = server.start(d)
            time.sleep(chance.random() * length)
            everyone = [child, *agents.pids(trial.JOB)]
            for sign in (signal.SIGSTOP, signal.SIGKILL):
                chance.shuffle(everyone)
                for pid in everyone:
                    agents.kill_one(pid, sign)
            server.end()
            agents.kill(trial.JOB)  # one that was just being started
            trial.expect(agents.until(lambda: not agents.pids(trial.JOB), 10), "the agent lives on")
            disk = look(d)
            at = next((k for k in range(len(states)) if passes(states, k, disk)), None)
            sizes = {n: len(v) if isinstance(v, bytes) else v for n, v in sorted(disk.items())}
            trial.expect(at is not None, f"{name}, {mode}, seed {seed}, kill {number}: no state of the plain run, "
                         f"kept in {d}: {sizes}")
            ends.add((name, at))
            total += 1
        server.close()
        os.system(f"rm -rf {d}")
print(f"{total} kills of {len(cases.CASES)} programs, {len(ends)} different ends")
trial.expect(len(ends) >= total // 20, "all kills came too early or too late")
