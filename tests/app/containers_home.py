# SPDX-License-Identifier: BSD-3-Clause
# Several containers of one user on one node, made of namespaces of processes, mounts and IPC, with one home: all save there at
# once, replace one file in turn, and read what the others have. One is killed, with its agent.
# Right: each has an agent of its own, which has no other's file; who reads gets a whole file, old or new; all that lives ends
# well with its last state in place, and the killed one's files are of a step that it had done, or short.
# run: script root timeout=200
import hashlib
import os
import signal
import subprocess
import sys
import time

from lib import agents, program, summary, trial

COUNT, STEPS, BYTES = 4, 6, 3 << 20
UNSHARE = ["unshare", "-m", "-p", "-i", "-f", "--mount-proc", "--propagation", "private"]
CODE = r"""
import hashlib, os, random, sys, time
me, count, steps, length = map(int, sys.argv[1:5])
def body(who, step):
    text = random.Random(who * 1000 + step).randbytes(length)
    head = b"%04d%04d" % (who, step)
    return head + text + hashlib.sha256(head + text).digest()
def look(name):
    try:
        data = open(name, "rb").read()
    except FileNotFoundError:
        return
    assert len(data) == 8 + length + 32 and hashlib.sha256(data[:-32]).digest() == data[-32:], f"{me} reads {name}: {len(data)} bytes"
print(os.readlink("/proc/self/ns/pid"), flush=True)
sys.stdin.read(1)
for step in range(steps):
    data = body(me, step)
    for new, name in ((f"r{me}.new.ckpt", f"r{me}.ckpt"), (f"turn{me}.new.ckpt", "turn.ckpt")):
        with open(new, "wb", buffering=0) as f:
            f.write(data)
            if step % 2:
                os.fsync(f.fileno())
        os.rename(new, name)
    print("step", step, flush=True)
    for other in range(count):
        look(f"r{other}.ckpt")
    look("turn.ckpt")
"""
if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode != 0:
    trial.skip("no namespaces here")


def begin(home, who):
    argv = [*UNSHARE, sys.executable, "-c", CODE, str(who), str(COUNT), str(STEPS), str(BYTES)]
    return program.start(argv, home, program.environment(trial.JOB, "all"), stdin=subprocess.PIPE)


def digest(path):
    """Who, and which step; None: not whole."""
    with open(path, "rb") as f:
        data = f.read()
    if len(data) != 8 + BYTES + 32 or hashlib.sha256(data[:-32]).digest() != data[-32:]:
        return None
    return int(data[:4]), int(data[4:8])


def namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


for killed in (None, 2):
    home = trial.fresh()
    all_of_them = [begin(home, who) for who in range(COUNT)]
    spaces = [p.stdout.readline().decode().strip() for p in all_of_them]
    trial.expect(len(set(spaces)) == COUNT, f"namespaces {spaces}")
    for p in all_of_them:
        p.stdin.write(b"x"), p.stdin.flush()
    crossed, seen = set(), set()
    end = time.monotonic() + 120
    while any(p.poll() is None for p in all_of_them) and time.monotonic() < end:
        for pid in agents.pids(trial.JOB):
            space = namespace(pid)
            if space not in spaces:
                continue
            seen.add(space)
            try:
                names = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            except OSError:
                continue
            mine = spaces.index(space)
            crossed |= {f"{mine}: {n}" for n in names if n.startswith(home) and f"r{mine}." not in n and f"turn{mine}." not in n
                        and "turn.ckpt" not in n}
        if killed is not None and os.path.exists(f"{home}/r{killed}.ckpt"):
            # Process 1 of it, and with that all of the container.
            with open(f"/proc/{all_of_them[killed].pid}/task/{all_of_them[killed].pid}/children", encoding="ascii") as f:
                os.kill(int(f.read().split()[0]), signal.SIGKILL)
            killed, dead = None, killed
        time.sleep(0.01)
    outs = [program.finish(p, 20) for p in all_of_them]
    was_killed = [who for who, out in enumerate(outs) if out.status != 0]
    what = f"killed {was_killed}"
    trial.expect(not crossed, f"{what}: an agent has another's file: {crossed}")
    trial.expect(len(seen) == COUNT, f"{what}: agents in {len(seen)} of {COUNT} containers")
    for who, out in enumerate(outs):
        if who in was_killed:
            continue
        trial.expect(not out.late and (summary.captured(out.err) or 0) == 2 * STEPS, f"{what}: container {who}: {out.how()}", out)
        trial.expect(digest(f"{home}/r{who}.ckpt") == (who, STEPS - 1), f"{what}: the last state of {who} is not in its place")
    trial.expect(digest(f"{home}/turn.ckpt") is not None, f"{what}: turn.ckpt is not whole")
    print(what, "turn.ckpt is of", digest(f"{home}/turn.ckpt"), flush=True)
    if was_killed:
        trial.expect(was_killed == [dead] and digest(f"{home}/r{dead}.ckpt") is not None, f"{what}: its renamed file is not whole")
    left = [n for n in os.listdir(home) if ".new." in n and not any(f"{who}.new" in n for who in was_killed)]
    trial.expect(not left, f"{what}: {left} are left")
    trial.expect(agents.until(lambda: not agents.held(trial.JOB, home), 10), f"{what}: files are held")
