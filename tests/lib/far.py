# SPDX-License-Identifier: BSD-3-Clause
"""A portusd that listens for other machines (tcp://127.0.0.1), and what its clients ask of it."""
import hashlib
import json
import os
import socket
import subprocess

from . import agents, program, trial
from .stores import CTL, DAEMON, Daemon


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest() if hasattr(hashlib, "file_digest") \
            else hashlib.sha256(f.read()).hexdigest()


class Store(Daemon):
    """A pool and its portusd; keys: names that it knows; by: how it is started, where it is elsewhere than here."""

    def __init__(self, size="256M", keys=("alice",), config=None, port=None, scheme="tcp", host="127.0.0.1", by=()):
        self.top = trial.fresh()
        self.pool, self.log = os.path.join(self.top, "pool"), os.path.join(self.top, "log")
        self.port = port or free_port()
        self.host, self.by = host, by
        self.name = f"{scheme}://{host}:{self.port}"
        self.keys, self.config = os.path.join(self.top, "keys"), os.path.join(self.top, "conf")
        for name in keys:
            self.make_key(name)
        self.allow(*keys)
        with open(self.config, "w", encoding="ascii") as f:
            f.write(config or "")
        subprocess.run([CTL, "pool", "create", self.pool, size], stdout=subprocess.DEVNULL, check=True)
        self.process = None
        self.start()

    def key(self, name):
        return os.path.join(self.top, name + ".key")

    def make_key(self, name):
        subprocess.run([CTL, "key", name, self.key(name)], stdout=subprocess.DEVNULL, check=True)

    def allow(self, *names):
        lines = []
        for name in names:
            with open(self.key(name), encoding="ascii") as f:
                lines.append(f.read())
        with open(os.open(self.keys, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
            f.write("".join(lines))

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.by, DAEMON, "--listen", self.name, "--keys", self.keys, "--config", self.config, self.pool],
                env=program.environment(trial.JOB, PORTUS_LOG="debug"), stderr=log, stdin=subprocess.DEVNULL)
        trial.expect(agents.until(self.answers, 10), f"portusd does not come: {self.said()}")

    def answers(self):
        with socket.socket() as s:
            return s.connect_ex((self.host, self.port)) == 0

    def environment(self, who="alice", job=trial.JOB, mode="all", **more):
        more = {"PORTUS_STORE": self.name, "PORTUS_KEY": self.key(who), **more}
        return program.environment(job, mode, **more)

    def ctl(self, *arguments, who="alice", status=0, timeout=60, **more):
        done = subprocess.run([CTL, *arguments], env=self.environment(who, mode=None, **more), capture_output=True,
                              text=True, timeout=timeout, check=False)
        trial.expect(done.returncode == status, f"portusctl {' '.join(arguments)}: exit status {done.returncode}, not "
                     f"{status}: {done.stdout}{done.stderr}{self.said()[-2000:]}")
        return done.stdout + done.stderr

    def versions(self, path="/", who="alice"):
        done = subprocess.run([CTL, "versions", "--json", path], env=self.environment(who, mode=None),
                              capture_output=True, text=True, timeout=60, check=False)
        return json.loads(done.stdout)["versions"] if done.returncode == 0 else []

    def kept(self, path, count, who="alice", seconds=20):
        trial.expect(agents.until(lambda: len(self.versions(path, who)) >= count, seconds, 0.1),
                     f"{path}: {len(self.versions(path, who))} versions, not {count}: {self.said()[-3000:]}")
