# SPDX-License-Identifier: BSD-3-Clause
# A store on another machine, and SIGKILL, SIGSTOP or SIGTERM of portusd, the carrier or the agent's worker, at instants of a save.
# Right: each save ends in time (20 s), with all its bytes in its file; the next one may write the same file at once; every version in
# the pool has the bytes of a save; and when all is well again the next save is kept within a bound.
# run: script by=check-vm timeout=300
from lib import far_kills

far_kills.run("tcp", (18,))
