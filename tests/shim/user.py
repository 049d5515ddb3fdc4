# SPDX-License-Identifier: BSD-3-Clause
# Run by a user without any privilege, and by two users at once.
# Right: captured as for root; each user has an agent of its own; neither touches the other's.
# run: script root timeout=180
import os
import subprocess

from lib import agents, program, state, summary, trial

try:
    subprocess.run([trial.test_program("deny")], cwd=trial.fresh(), user=65534, group=65534, extra_groups=[],
                   stderr=subprocess.DEVNULL, check=False)
except PermissionError:
    trial.skip("an unprivileged user cannot reach the build directory")
for name in ("write", "rename", "reader", "locks", "patch", "threads_files", "end", "attributes", "killed"):
    argv = [trial.test_program(name)]
    results = []
    for mode in (None, "all"):
        d = trial.fresh()
        os.chown(d, 65534, 65534)
        env = program.environment(trial.JOB, mode, HOME="/nonexistent")
        out = program.run(argv, d, env, 60, user=65534, group=65534, extra_groups=[])
        results.append((d, out))
    (a, plain), (b, out) = results
    trial.expect(plain.status == out.status and plain.out == out.out, f"{name}: {out.how()}, plain {plain.how()}", out)
    said = state.differences(state.snapshot(a), state.snapshot(b))
    trial.expect(not said, f"{name}: {said}", out)
    if name not in ("locks", "killed"):
        trial.expect((summary.captured(out.err) or 0) >= 1, f"{name}: nothing was captured", out)

nobody = agents.pids(trial.JOB)
trial.expect(nobody and all(os.stat(f"/proc/{pid}").st_uid == 65534 for pid in nobody), f"agents {nobody} are not nobody's")
out = trial.compared([trial.test_program("write")], "root beside nobody", captures=1)
both = agents.pids(trial.JOB)
trial.expect({os.stat(f"/proc/{pid}").st_uid for pid in both} == {0, 65534}, f"agents {both}")
