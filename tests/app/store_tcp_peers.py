# SPDX-License-Identifier: BSD-3-Clause
# Who knocks at a portusd that listens for other machines.
# Right: nobody without a key of its own gets a byte, and is told nothing of why; another version is told so in a
# sentence; rubbish, half handshakes, lies about lengths and 1,000 connections cost those who make them their
# connection, and others nothing: a save beside them is kept. A key file that others may read is refused by both ends;
# a key that is taken away ends its connections.
# run: script timeout=180
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time

from lib import agents, far, program, trial
from lib.stores import ALIVE, BYTES, CANCEL, DONE, FILE, HELLO, PIN, READ, REMOVE, RENAMED, ROOM, VIEW, WELCOME, message

RING, DRAFT, PULL, DROP, SEAL, FETCH, DATA, STATE, SCRUB, SIZE = 71, 72, 73, 75, 76, 84, 85, 87, 100, 103
WHO = bytes(16) + b"0.1.0".ljust(32, b"\0") + b"host".ljust(64, b"\0")

if shutil.which("openssl") is None:
    trial.skip("no openssl command")


def frame(op, data=b"", **fields):
    fields.setdefault("length", 40 + len(data))
    return message(op, **fields) + data


def describe(path=b"/nowhere/x.pt", size=5 << 20, mode=0o100644, handle=8, path_bytes=None):
    return struct.pack("<QqqIIII16sII128sII", size, 1, 2, mode, 0, 0, 1, b"f" * 16, 1, handle, b"h" * 8,
                       len(path) + 1 if path_bytes is None else path_bytes, 0) + path + b"\0"


class Talk:
    """A client that has the key, and says what it likes; by the openssl command."""

    def __init__(self, name="alice", secret=None, hello=True):
        with open(store.key("alice"), encoding="ascii") as f:
            secret = secret or f.read().split()[1]
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-quiet", "-tls1_3", "-connect", f"127.0.0.1:{store.port}", "-psk_identity", name,
             "-psk", secret], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self.welcome = None
        if hello:
            self.send(frame(HELLO, WHO, value=3))
            self.welcome = self.receive()

    def send(self, data):
        try:
            self.process.stdin.write(data)
        except OSError:
            pass

    def read(self, length):
        data = b""
        while len(data) < length:
            part = self.process.stdout.read(length - len(data))
            if not part:
                return None
            data += part
        return data

    def receive(self):
        head = self.read(40)
        if head is None:
            return None
        _, _, op, length, value, size, flags, error, _ = struct.unpack("<IHHIIQIiq", head)
        return op, value, size, flags, error, self.read(length - 40) if length > 40 else b""

    def ended(self, seconds=10):
        """Whether it is hung up."""
        try:
            self.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def saved(name, seconds=30):
    """A save beside all that: done, and kept."""
    began = time.monotonic()
    out = program.run(["dd", "bs=1M", "count=5", "if=/dev/urandom", f"of={work}/{name}"], work, store.environment(), seconds)
    trial.expect(out.status == 0, f"a save: {out.how()}", out)
    store.kept(os.path.join(work, name), 1)
    return time.monotonic() - began


store = far.Store(keys=("alice", "bob"), config="key alice sessions 8\n")
try:
    work = trial.fresh()
    saved("first.pt")

    # Without the key, by another's name, by a name that is nobody's: nothing.
    for name, secret in (("alice", "00" * 32), ("nobody", None), ("bob", None), ("", None)):
        talk = Talk(name or "x" * 200, secret)
        trial.expect(talk.welcome is None and talk.ended(), f"{name}: let in: {talk.welcome}")
        talk.close()
    plain = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{store.port}"], input=b"x" * 100,
                           capture_output=True, timeout=20, check=False)
    trial.expect(b"BEGIN CERTIFICATE" not in plain.stdout and plain.returncode != 0, f"without a key: {plain}")
    trial.expect("does not have the key of its name" in store.said(), "portusd does not say it")
    stranger = os.path.join(store.top, "stranger.key")
    subprocess.run([far.CTL, "key", "alice", stranger], stdout=subprocess.DEVNULL, check=True)
    said = store.ctl("ls", status=1, PORTUS_KEY=stranger)
    trial.expect("does not know this key" in said, f"wrong key: {said}")
    os.chmod(stranger, 0o644)
    trial.expect("others may read" in store.ctl("ls", status=1, PORTUS_KEY=stranger), "a key that others may read")
    trial.expect("PORTUS_KEY" in store.ctl("ls", status=1, PORTUS_KEY=""), "no key")
    done = subprocess.run([far.DAEMON, "--listen", "tcp://127.0.0.1:1", "--keys", stranger, store.pool],
                          capture_output=True, text=True, timeout=20, check=False)
    trial.expect(done.returncode == 2 and "others may read" in done.stderr, f"keys that others may read: {done}")

    # A save with the wrong key is a save, and one line.
    os.chmod(stranger, 0o600)
    out = program.run(["dd", "bs=1M", "count=5", "if=/dev/urandom", f"of={work}/stranger.pt"], work,
                      store.environment(job=trial.JOB + "-s", PORTUS_KEY=stranger), 30)
    trial.expect(out.status == 0 and os.path.getsize(f"{work}/stranger.pt") == 5 << 20, "a save with a wrong key", out)
    trial.expect(agents.until(lambda: "does not know this key" in subprocess.run(
        [far.CTL, "status"], env=program.environment(trial.JOB + "-s"), capture_output=True, text=True,
        check=False).stdout, 10), "status does not say why")

    # Another version is told so.
    talk = Talk(hello=False)
    talk.send(message(HELLO, value=3, version=2, length=40 + len(WHO)) + WHO)
    answer = talk.receive()
    trial.expect(answer is not None and answer[0] == WELCOME and answer[4] == -93 and talk.ended(), f"version: {answer}")
    talk.close()

    # With the key, and lies.
    lies = [
        b"\0" * 4096, os.urandom(4096), message(ALIVE, length=39), message(ALIVE, length=0xffffffff), message(ALIVE, magic=1),
        frame(HELLO, WHO, value=3), frame(3), frame(9999), frame(WELCOME), frame(VIEW, b"x"),
        frame(READ, size=0, flags=100), frame(FILE, value=1), frame(FILE, describe()[:100], value=1),
        frame(FILE, describe(path=b"relative"), value=1), frame(FILE, describe(path_bytes=4000), value=1),
        frame(FILE, describe(path=b"/a\0b"), value=1), frame(FILE, describe(size=1 << 63), value=1),
        frame(FILE, describe(mode=0o040755), value=1), frame(FILE, describe(handle=129), value=1),
        frame(RENAMED), frame(RENAMED, b"x" * (17 << 20)), frame(RENAMED, os.urandom(1000)), frame(PULL, value=7, size=1),
        frame(RING, value=1, size=1 << 63, flags=1),
        frame(RING, value=1, size=0, flags=1) + frame(PULL, value=1, size=1 << 40), frame(DATA, b"x" * 10, value=1, flags=10),
        frame(STATE, describe(), value=1), frame(SEAL, value=1), frame(SEAL, describe() + b"more", value=1),
        frame(BYTES, b"x" * 100, flags=100), frame(DRAFT, describe()[:-2], value=1),
    ]
    for number, lie in enumerate(lies):
        talk = Talk()
        trial.expect(talk.welcome is not None and talk.welcome[4] == 0, f"not let in: {talk.welcome}")
        talk.send(lie)
        while talk.receive() is not None:
            pass
        trial.expect(talk.ended(), f"lie {number} is not hung up")
        talk.close()

    # Answers that are not what was asked for: a file of 5 MiB, its pieces too short, too long, another's, an error.
    def answers(reply):
        talk = Talk()
        talk.send(frame(FILE, describe(), value=5))
        while True:
            got = talk.receive()
            if got is None or got[0] == DONE:
                break
            for data in reply(got):
                talk.send(data)
        talk.close()
        return got

    def data(got, length=None, value=None, offset=None, error=0):
        _, number, size, flags, _, _ = got
        length = flags if length is None else length
        return frame(DATA, b"d" * length, value=number if value is None else value,
                     size=size if offset is None else offset, flags=flags, error=error, time=1)

    def honest(got, **state):
        return [data(got)] if got[0] == FETCH else [frame(STATE, describe(**state), value=got[1])]

    for what in (lambda g: [data(g, 10)], lambda g: [data(g, g[3] + 1)], lambda g: [data(g, value=6)],
                 lambda g: [data(g, offset=1 << 50)], lambda g: [data(g), data(g)]):
        trial.expect(answers(what) is None, "a wrong answer is taken")
    trial.expect(answers(lambda g: [data(g, 0, error=-5)])[4] == -5, "an error")
    trial.expect(answers(lambda g: honest(g, size=6 << 20))[4] == -116, "a file that has changed")
    trial.expect(answers(lambda g: honest(g) if g[0] == FETCH else [frame(STATE, value=5, error=-116)])[4] == -116, "a lease")
    trial.expect(not [v for v in store.versions() if v["path"] == "/nowhere/x.pt"], "a version of lies")
    trial.expect(answers(honest)[4] == 0 and len(store.versions("/nowhere/x.pt")) == 1, "an honest one is not kept")
    store.ctl("verify")

    # Random ones, after a good beginning.
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    print("seed", seed)
    for _ in range(30):
        talk = Talk()
        for _ in range(20):
            op = chance.choice([FILE, PIN, REMOVE, ROOM, RENAMED, CANCEL, RING, DRAFT, PULL, DROP, SEAL, VIEW, READ, ALIVE,
                                DATA, STATE, SCRUB, SIZE])
            body = chance.choice([b"", describe(), describe() + os.urandom(50), os.urandom(chance.randrange(300))])
            talk.send(frame(op, body, value=chance.randrange(4), size=chance.choice([0, 1, 5, 1 << 20, 1 << 63]),
                            flags=chance.choice([0, 1, 4, 1 << 16, 1 << 20])))
        talk.close()
    trial.expect(store.process.poll() is None, f"portusd has died: {store.said()[-3000:]}")

    # Its sessions.
    time.sleep(1)
    talks = [Talk() for _ in range(10)]
    refused = [t for t in talks if t.welcome is not None and t.welcome[4] == -87]
    trial.expect(2 <= len(refused) <= 4, f"{len(refused)} of 10 refused")
    for talk in talks:
        talk.close()

    # 1,000 that say nothing or half of something, and others that go on.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    crowd = []
    for number in range(1000):
        s = socket.create_connection(("127.0.0.1", store.port), 10)
        if number % 3 == 1:
            s.send(bytes.fromhex("16030100c8010000c40303") + os.urandom(20))  # the beginning of a ClientHello
        elif number % 3 == 2:
            s.send(os.urandom(200))
        crowd.append(s)
    seconds = saved("crowd.pt")
    trial.expect(seconds < 20, f"{seconds:.1f} s beside a crowd")
    for s in crowd:
        s.close()
    print(f"beside 1000 connections: {seconds:.1f} s")

    # A key that is taken away.
    talk = Talk()
    store.make_key("carol")
    store.allow("bob", "carol")
    store.process.send_signal(signal.SIGHUP)
    store.says("is read again")
    trial.expect(talk.ended(5), "a connection whose key is gone")
    trial.expect("does not know this key" in store.ctl("ls", status=1), "a key that is gone")
    store.ctl("ls", who="carol")
    talk.close()
    trial.expect(store.end() == 0, "portusd does not end")
finally:
    for job in ("", "-s"):
        agents.kill(trial.JOB + job)
    if store.process.poll() is None:
        store.end(signal.SIGKILL)
