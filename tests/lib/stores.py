# SPDX-License-Identifier: BSD-3-Clause
"""A portusd for several users, and what they ask of it."""
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import traceback

from . import agents, program, trial

CTL = os.path.join(program.BUILD, "portusctl")
DAEMON = os.path.join(program.BUILD, "portusd")
OWNER = 60100  # runs portusd
MAGIC, HELLO, WELCOME, FILE, DONE, PIN, REMOVE, ROOM, RENAMED, CANCEL = 0x50545553, 1, 2, 64, 65, 66, 67, 68, 69, 70
RING, DRAFT, PULL, PULLED, DROP, SEAL = 71, 72, 73, 74, 75, 76
VIEW, READ, BYTES, ALIVE = 80, 81, 82, 83
IMPORT, KEEP, SETTLE = 104, 105, 106


def user(uid):
    """Options of subprocess: as that user."""
    return {"user": uid, "group": uid, "extra_groups": []} if uid else {}


class Daemon:
    """A portusd that was started, and what it says."""

    process = log = None

    def said(self):
        with open(self.log, encoding="utf-8") as f:
            return f.read()

    def says(self, text, seconds=5):
        trial.expect(agents.until(lambda: text in self.said(), seconds), f"portusd does not say {text!r}: {self.said()}")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        return self.process.wait(20)


class Store(Daemon):
    """A pool of its own user, and the portusd that serves it."""

    def __init__(self, size="128M", config=None, **environment):
        top = trial.fresh()
        os.chmod(top, 0o755)
        self.pool, self.where = os.path.join(top, "private/pool"), os.path.join(top, "run/store.sock")
        self.config, self.log = os.path.join(top, "portusd.conf"), os.path.join(top, "log")
        self.name, self.environment, self.hidden = "unix:" + self.where, environment, ()
        for directory, mode in (("private", 0o700), ("run", 0o755)):
            os.mkdir(os.path.join(top, directory), mode)
            os.chown(os.path.join(top, directory), OWNER, OWNER)
        self.write_config(config)
        subprocess.run([CTL, "pool", "create", self.pool, size], stdout=subprocess.DEVNULL, check=True, **user(OWNER))
        self.process = None
        self.start()

    def write_config(self, text):
        with open(self.config, "w", encoding="ascii") as f:
            f.write(text or "")

    def start(self):
        env = program.environment(trial.JOB, **{"PORTUS_LOG": "info", **self.environment})
        argv, options = [DAEMON, "--listen", self.where, "--config", self.config, self.pool], user(OWNER)
        if self.hidden:  # as a service manager hides homes
            argv, options = ["unshare", "-m", "sh", "-c", "for d in $HIDDEN; do mount -t tmpfs none $d || exit 1; done; "
                             f'exec setpriv --reuid {OWNER} --regid {OWNER} --clear-groups "$0" "$@"', *argv], {}
            env["HIDDEN"] = " ".join(self.hidden)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(argv, env=env, stderr=log, stdin=subprocess.DEVNULL, **options)
        trial.expect(agents.until(self.answers, 10), f"portusd does not come: {self.said()}")

    def answers(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            return s.connect_ex(self.where) == 0

    def ctl(self, uid, *arguments, status=0):
        done = subprocess.run([CTL, *arguments], env=program.environment(trial.JOB, PORTUS_STORE=self.name),
                              capture_output=True, text=True, timeout=60, check=False, **user(uid))
        trial.expect(done.returncode == status, f"{uid}: portusctl {' '.join(arguments)}: exit status {done.returncode}, "
                     f"not {status}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def versions(self, uid, path="/"):
        done = subprocess.run([CTL, "versions", "--store", self.name, "--json", path], capture_output=True, text=True,
                              timeout=60, check=False, **user(uid))
        return json.loads(done.stdout)["versions"] if done.returncode == 0 else []

    def kept(self, uid, path, count):
        trial.expect(agents.until(lambda: len(self.versions(uid, path)) >= count, 20, 0.1),
                     f"{path}: {len(self.versions(uid, path))} versions of user {uid}, not {count}: {self.said()}")


def home(uid):
    """A directory that nobody else may enter."""
    path = trial.fresh()
    os.chown(path, uid, uid)
    os.chmod(path, 0o700)
    return path


def save(store, uid, directory, files, mode="all"):
    """A program of that user writes files: {name: bytes}."""
    env = program.environment(f"{trial.JOB}-{uid}", mode, PORTUS_STORE=store.name)
    for name, data in files.items():
        with tempfile.TemporaryFile() as f:
            f.write(data)
            f.seek(0)
            done = program.finish(program.start(["tee", name], directory, env, stdin=f, stdout=subprocess.DEVNULL,
                                                **user(uid)), 30)
        trial.expect(done.status == 0, f"tee {name}: {done.how()}", done)


def message(op, value=0, size=0, magic=MAGIC, version=1, length=40, flags=0, error=0, time=0):
    return struct.pack("<IHHIIQIiq", magic, version, op, length, value, size, flags, error, time)


class Talk:
    """A connection; with hello=True it has been let in."""

    def __init__(self, store, hello=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(5)
        self.socket.connect(store.where)
        if hello:
            try:
                self.send(message(HELLO, 3))
            except OSError:
                pass  # refused already
            self.welcome = self.receive() or self.receive()

    def send(self, packet, *fds):
        if fds:
            socket.send_fds(self.socket, [packet], fds)
        else:
            self.socket.send(packet)

    def receive(self):
        """(op, value, size, flags, error, bytes); None: it hung up."""
        try:
            packet = self.socket.recv(1 << 20)
        except OSError:
            return None
        if len(packet) < 40:
            return None
        _, _, op, _, value, size, flags, error, _ = struct.unpack("<IHHIIQIiq", packet[:40])
        return op, value, size, flags, error, packet[40:]

    def ask(self, op, *fds, **fields):
        return self.ask_raw(message(op, **fields), *fds)

    def ask_raw(self, packet, *fds):
        self.send(packet, *fds)
        return self.receive()

    def close(self):
        self.socket.close()


def as_user(uid, work):
    """Runs work() in a process of that user; what it prints as a failure is the test's."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work()
            status = 0
        except SystemExit as e:
            status = e.code or 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    trial.expect(os.waitpid(pid, 0)[1] == 0, f"user {uid} failed")


class Fake:
    """A portusd that is none: what it does is said by answer(socket, packet)."""

    def __init__(self, answer):
        self.where = os.path.join(trial.fresh(), "s")
        os.chmod(os.path.dirname(self.where), 0o755)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.where)
        os.chmod(self.where, 0o777)
        self.listener.listen(16)
        self.answer, self.name = answer, "unix:" + self.where
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            s, _ = self.listener.accept()
            threading.Thread(target=self.talk, args=(s,), daemon=True).start()

    def talk(self, s):
        try:
            while packet := s.recv(4096):
                self.answer(s, packet)
        except OSError:
            pass
