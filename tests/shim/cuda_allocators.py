# SPDX-License-Identifier: BSD-3-Clause
# Programs whose allocator keeps addresses and gives their pages back: jemalloc, tcmalloc, mimalloc, before the shim and
# behind it, as they are and when they purge at once.
# Right: as plainly with that allocator; and nothing is promised.
# run: script by=check-cuda timeout=300
import os
import subprocess

from lib import program, summary, trial

ALLOCATORS = {
    "libjemalloc.so.2": {"MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0,retain:true"},
    "libtcmalloc_minimal.so.4": {"TCMALLOC_AGGRESSIVE_DECOMMIT": "1"},
    "libmimalloc.so.2": {"MIMALLOC_PAGE_RESET": "1", "MIMALLOC_DECOMMIT_DELAY": "0"},
}
PROGRAMS = "cuda_early", "cuda_memory", "cuda_reuse", "cuda_write"


def found(name):
    """Where the loader finds that library, or nothing."""
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    paths = [line.split(" => ")[1] for line in cache.splitlines() if line.split()[0] == name]
    return paths[0] if paths else None


def run(name, libraries, env):
    directory = trial.fresh()
    outcome = program.run([trial.test_program(name)], directory, {**env, "LD_PRELOAD": ":".join(libraries)}, 60)
    trial.expect(outcome.status == 0, f"{name}, {libraries}: {outcome.how()}", outcome)
    return outcome, directory


there = {found(name): more for name, more in ALLOCATORS.items() if found(name)}
if not there:
    trial.skip(f"none of {', '.join(ALLOCATORS)}: sh scripts/install-deps test")
for allocator, more in there.items():
    for name in PROGRAMS:
        for settings in {}, more:
            wanted, before = run(name, [allocator], program.environment(trial.JOB, **settings))
            for libraries in [program.SHIM, allocator], [allocator, program.SHIM]:
                what = f"{name}, {libraries}, {settings}"
                outcome, directory = run(name, libraries, program.environment(trial.JOB, "default", **settings))
                trial.expect(outcome.out == wanted.out, f"{what}: other output", outcome)
                trial.same(before, directory, what, outcome)
                trial.expect(summary.captured(outcome.err) > 0, f"{what}: nothing was captured", outcome)
                trial.expect(summary.referred(outcome.err) == 0, f"{what}: something was promised", outcome)
    print(os.path.basename(allocator))
