# SPDX-License-Identifier: BSD-3-Clause
# Two ranks write a shard each; when both have closed theirs, a third process, which has written no
# checkpoint itself, writes the pointer: by rename, or by plain open and write. All are killed together.
# Right: whenever the pointer names a step, both shards of that step are whole.
# run: script timeout=400
import os
import random
import signal
import sys
import time

from lib import agents, program, trial

RANK = """
import os, sys
rank, data = int(sys.argv[1]), os.urandom(1 << 20) * 6
for step in range(6):
    if rank == 2:
        assert os.read(0, 1) and os.read(0, 1)
        name = "latest" if step % 2 else "latest.new"
        fd = os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        os.write(fd, b"%d" % step)
        os.close(fd)
        if not step % 2: os.rename(name, "latest")
        os.write(int(sys.argv[2]), b"n")
        os.write(int(sys.argv[3]), b"n")
    else:
        os.makedirs(f"s{step}", exist_ok=True)
        fd = os.open(f"s{step}/{rank}.ckpt", os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(fd, data); os.write(fd, b"tail"); os.write(fd, data); os.write(fd, b"end")
        os.close(fd)
        os.write(1, b"d")
        assert os.read(0, 1)
"""
WHOLE = 2 * (6 << 20) + 7
named, kills = set(), 0
length = None
for seed in range(-1, 120):
    if seed >= 24 and len(named) >= 3:
        break
    chance, d = random.Random(seed), trial.fresh()
    (done_in, done_out), go = os.pipe(), [os.pipe(), os.pipe()]
    ranks = []
    for rank in range(3):
        streams = {"stdin": go[rank][0], "stdout": done_out} if rank < 2 else \
            {"stdin": done_in, "pass_fds": (go[0][1], go[1][1])}
        env = program.environment(trial.JOB, "all" if seed % 2 else "default")
        ranks.append(program.start([sys.executable, "-u", "-c", RANK, str(rank), str(go[0][1]), str(go[1][1])], d, env, **streams))
    for fd in (done_in, done_out, *go[0], *go[1]):
        os.close(fd)
    begin = time.monotonic()
    if length is not None:
        time.sleep(0.08 + chance.random() * length)
        everyone = [p.pid for p in ranks] + agents.pids(trial.JOB)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            chance.shuffle(everyone)
            kills += sum(agents.kill_one(pid, number) for pid in everyone)
    outcomes = [program.finish(p, 30) for p in ranks]
    if length is None:
        length = time.monotonic() - begin
        trial.expect(all(o.status == 0 for o in outcomes), f"without a kill: {[o.how() for o in outcomes]}", outcomes[2])
    else:
        agents.kill(trial.JOB)
        agents.until(lambda: not agents.pids(trial.JOB), 5)
    if os.path.exists(d + "/latest") and (text := open(d + "/latest").read()):
        named.add(text)
        sizes = [os.path.getsize(f"{d}/s{text}/{rank}.ckpt") for rank in (0, 1)]
        trial.expect(sizes == [WHOLE, WHOLE], f"seed {seed}: the pointer names step {text}, its shards have {sizes}")
        tails = [open(f"{d}/s{text}/{rank}.ckpt", "rb").read()[-3:] for rank in (0, 1)]
        trial.expect(tails == [b"end", b"end"], f"seed {seed}: shards of step {text} end with {tails}")
print(f"{kills} signals, steps {sorted(named)}")
trial.expect(len(named) >= 3 and kills > 50, "all kills came too early or too late")
