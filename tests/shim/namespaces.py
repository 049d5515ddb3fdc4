# SPDX-License-Identifier: BSD-3-Clause
# Containers, in pieces: namespaces of processes (the program is process 1), users, mounts and IPC,
# a small /dev/shm, a read-only root, a user whom no passwd knows.
# Right: output, end and files are as without the shim, also where the agent ends with process 1;
# and what can be captured is.
# run: script root slow timeout=300
import os
import subprocess

from lib import agents, program, state, summary, trial

if subprocess.run(["unshare", "-mpiU", "-r", "-f", "true"], capture_output=True, check=False).returncode != 0:
    trial.skip("no namespaces here")
PROGRAMS = [trial.test_program(name) for name in ("write", "rename", "end", "killed", "spawn")]
UNSHARE = ["unshare", "-m", "--propagation", "private"]
ROOT = 'd=$PWD; mount --bind "$d" "$d" && mount -o remount,bind,ro / && cd "$d" && exec "$0"'
for what, prefix in (("process 1", ["unshare", "-p", "-f", "--mount-proc"]),
                     ("process 1, with the /proc outside", ["unshare", "-p", "-f"]),
                     ("a child of process 1", ["unshare", "-p", "-f", "--mount-proc", "sh", "-c", '"$0"; exit $?']),
                     ("users", ["unshare", "-U", "-r"]),
                     ("users, as nobody", ["unshare", "-U"]),
                     ("IPC and mounts", ["unshare", "-i", "-m"]),
                     ("all of them", ["unshare", "-m", "-p", "-i", "-u", "-U", "-r", "-C", "-f", "--mount-proc"]),
                     ("64 MiB of /dev/shm", [*UNSHARE, "sh", "-c", 'mount -t tmpfs -o size=64m none /dev/shm; exec "$0"']),
                     ("a read-only /dev/shm", [*UNSHARE, "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm; exec "$0"']),
                     ("a read-only root", [*UNSHARE, "sh", "-c", ROOT])):
    for path in PROGRAMS:
        name = os.path.basename(path)
        if name == "killed" and "-p" in prefix:
            continue  # the agent is killed with it
        if name == "end" and "-p" not in prefix:
            continue  # it takes long, and is about process 1
        out = trial.compared([*prefix, path], f"{what}: {name}", timeout=60)
        if name == "write" and what not in ("process 1, with the /proc outside", "users, as nobody"):
            trial.expect((summary.captured(out.err) or 0) >= 1, f"{what}: nothing was captured", out)
        agents.until(lambda: not agents.held(trial.JOB, trial.TOP), 10)

for path in PROGRAMS:
    found = []
    for mode in (None, "all"):
        d = trial.fresh()
        os.chown(d, 54321, 54322)
        env = program.environment(trial.JOB, mode, HOME="/nonexistent", USER="")
        out = program.run([path], d, env, 60, user=54321, group=54322, extra_groups=[])
        agents.until(lambda: not agents.held(trial.JOB, d), 10)
        found.append((out.status, out.out, state.snapshot(d)))
    name = os.path.basename(path)
    trial.expect(found[0][:2] == found[1][:2], f"an unknown user: {name}: {out.how()}", out)
    said = state.differences(found[0][2], found[1][2])
    trial.expect(not said, f"an unknown user: {name}: {said}", out)
    trial.expect(name in ("killed", "end", "spawn") or (summary.captured(out.err) or 0) >= 1, f"an unknown user: {name}: nothing captured", out)
