# SPDX-License-Identifier: BSD-3-Clause
# The simulated table of docs/deploy.md is what scripts/failure-table prints, and near what theory says (Young 1974, Daly
# 2006): the best interval is the root of twice the stall times the time between failures.
# run: script
import math
import os
import runpy
import sys

from lib import trial

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
table = runpy.run_path(os.path.join(TOP, "scripts/failure-table"))


class Options:
    gib, restart, failures, seed = 57, 600, 2000, 1


rows = list(table["rows"](Options))
with open(os.path.join(TOP, "docs/deploy.md"), encoding="utf-8") as f:
    text = f.read()
for row in rows:
    trial.expect(row in text.splitlines(), f"docs/deploy.md does not have: {row}")
for size in (64, 1024):
    rate = table["RATE"] * size
    interval, lost = table["best"](rate, 60, 60, 600, Options)
    wanted = math.sqrt(2 * 60 / rate)
    trial.expect(0.7 < interval / wanted < 1.4, f"{size}: best {interval:.0f} s, in theory {wanted:.0f} s")
    theory = math.sqrt(2 * 60 * rate) + 600 * rate
    trial.expect(0.8 < sum(lost) / theory < 1.2, f"{size}: {sum(lost):.4f} is lost, in theory {theory:.4f}")
sys.exit(0)
