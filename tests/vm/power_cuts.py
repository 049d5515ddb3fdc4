# SPDX-License-Identifier: BSD-3-Clause
# A guest with emulated persistent memory saves into its pool until its power is cut, and boots again: CYCLES
# (3) times for fsdax and devdax, with ADR and eADR. Right: see lib/power.py. SEED repeats the instants.
# run: script timeout=900
import os
import sys

from lib import guest, power, trial

seed = os.environ.get("SEED", str(os.getpid()))
print("seed", seed, flush=True)
guest.needed()
try:
    power.run(trial.fresh(), int(os.environ.get("CYCLES", "3")), seed, lambda text: print(text, flush=True))
except power.Wrong as e:
    sys.exit(f"seed {seed}: {e}")
