# SPDX-License-Identifier: BSD-3-Clause
# A store on another machine by tcp://: SIGKILL and SIGSTOP of portusd and of the carrier, SIGKILL of the agent, loss of the node, at
# each step of their conversation: handshake, put, pull, commit, done. Right: each save ends in time (20 s), with all its bytes in
# its file; every version in the pool has the bytes of one save; the next save is kept within a bound (40 s).
# run: script by=check-vm timeout=1800
from lib import far_steps

far_steps.run("tcp")
