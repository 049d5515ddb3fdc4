# SPDX-License-Identifier: BSD-3-Clause
"""Two machines' network on one: two namespaces joined by a veth, and what can go wrong between them.

The test itself goes on in the nearer one (enter), what is started with FAR.by in the other. Both go when the
processes in them have ended.
"""
import os
import subprocess
import sys

from . import trial

HERE, THERE, LATER = "10.77.0.1", "10.77.0.2", "10.77.0.3"


def _run(*argv):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def enter():
    """Begins this program anew in a namespace of its own; skips the test where there is none to be had."""
    if "NET" in os.environ:
        return
    if os.geteuid() != 0 or not _run("unshare", "-n", "sh", "-c", "ip link add name a type veth peer name b && iptables -A "
                                     "INPUT -m statistic --mode random --probability 0.5 -j DROP"):
        trial.skip("no network namespaces, or no iptables, for this user here")
    os.execvpe("unshare", ["unshare", "-n", sys.executable, *sys.argv], {**os.environ, "NET": "1"})


class Far:
    """The other namespace."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 3600"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.by = ("nsenter", "-n", "-t", str(self.process.pid))
        for words in (f"ip link add name near type veth peer name far netns {self.process.pid}", "ip link set lo up",
                      f"ip addr add {HERE}/24 dev near", "ip link set near up"):
            trial.expect(_run(*words.split()), words)
        for words in ("ip link set lo up", f"ip addr add {THERE}/24 dev far", "ip link set far up"):
            self.there(words)

    def there(self, words):
        trial.expect(_run(*self.by, *words.split()), words)

    def cable(self, state):
        """down: this side sees that there is no carrier. up."""
        self.there(f"ip link set far {state}")

    def lose(self, share):
        """So much of the packets of either direction goes lost, silently; 1: all; 0: none."""
        for by in ((), self.by):
            trial.expect(_run(*by, "iptables", "-F", "INPUT"), "iptables")
            if share:
                _run(*by, "iptables", "-A", "INPUT", "!", "-i", "lo", "-m", "statistic", "--mode", "random",
                     "--probability", str(share), "-j", "DROP")

    def forget(self):
        """Nothing is heard any more of what is connected by now, as of a machine without power; this is another one."""
        for words in (f"iptables -A OUTPUT -s {HERE} -j DROP", f"ip addr del {HERE}/24 dev near", f"ip addr add {LATER}/24 dev near"):
            trial.expect(_run(*words.split()), words)

    def end(self):
        self.process.kill()
        self.process.wait()
