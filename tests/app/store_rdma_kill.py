# SPDX-License-Identifier: BSD-3-Clause
# A store on another machine by rdma://, with a double of the plug-in that speaks verbs (tests/verbs), and SIGKILL, SIGSTOP or SIGTERM of portusd, the carrier or the agent's worker, at instants of a save.
# Right: each save ends in time (20 s), with all its bytes in its file; the next one may write the same file at once; every version in
# the pool has the bytes of a save; and when all is well again the next save is kept within a bound.
# A stop of 3 s is one of which the agent knows nothing, one of 18 s ends the connection.
# run: script by=check-vm timeout=400
from lib import double  # noqa: F401  first: it says which build is meant
from lib import far_kills

far_kills.run("rdma", (3, 18))
