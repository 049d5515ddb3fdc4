# SPDX-License-Identifier: BSD-3-Clause
# Strangers talk to a portusd that serves all users: garbage, other versions, descriptors of every wrong kind,
# files that change, that end, that never answer, requests for what is not theirs, crowds, silence.
# Right: each loses its connection at most; no descriptor is kept, no byte of another user shown, and who
# behaves is served meanwhile. And the other way: an agent and portusctl that talk to a portusd which is none.
# run: script root timeout=400
import fcntl
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time

from lib import agents, program, stores, trial
from lib.stores import (ALIVE, BYTES, CANCEL, DONE, DRAFT, DROP, FILE, HELLO, IMPORT, KEEP, PIN, PULL, PULLED, READ, RENAMED, RING, ROOM, SEAL,
                        SETTLE, VIEW, WELCOME, Talk, message)

GOOD, BAD = 60101, 60102
store = stores.Store(config="default sessions 16 bytes 32M\n")
pid = store.process.pid


def descriptors():
    return len(os.listdir(f"/proc/{pid}/fd"))


def serves():
    """Somebody else is served, and soon."""
    begin = time.monotonic()
    seen = store.versions(GOOD)
    trial.expect({v["path"] for v in seen} == {kept}, f"what the other user sees: {seen}")
    trial.expect(time.monotonic() - begin < 8, f"the other user waits for {time.monotonic() - begin:.1f} s")
    trial.expect(store.process.poll() is None, f"portusd has ended: {store.said()}")


def leased(path, data):
    """A file with a read lease, as an agent passes it."""
    with open(path, "wb") as f:
        f.write(data)
    fd = os.open(path, os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return fd


def garbage():
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    os.chdir(bad)
    os.mkfifo("fifo")
    os.mkdir("directory")
    memory = os.memfd_create("m")
    os.truncate(memory, 1 << 20)
    fds = [os.open("/dev/null", os.O_RDWR), os.open("/dev/zero", os.O_RDONLY), os.open("/etc/passwd", os.O_RDONLY),
           os.open("directory", os.O_RDONLY), os.open("fifo", os.O_RDWR), os.open("/etc/passwd", os.O_PATH), memory,
           os.open("w", os.O_CREAT | os.O_WRONLY), leased("l", bytes(5000)), socket.socket().fileno(),
           socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).fileno(), os.open("/proc/self/status", os.O_RDONLY)]
    hello = message(HELLO, 3)
    packets = [[b""], [b"x"], [bytes(40)], [b"\xff" * 4096], [message(HELLO, 1)], [message(HELLO, 3, magic=7)],
               [message(HELLO, 3, version=99)], [message(HELLO, 3, length=31)], [message(HELLO, 3)[:17]], [message(FILE)],
               [message(VIEW)], [hello, hello], [hello, message(99)], [hello, message(WELCOME)], [hello, message(DONE)],
               [hello, message(BYTES, flags=1 << 31)], [hello, message(READ, flags=100)],
               [hello, message(VIEW), message(READ, size=1 << 63, flags=1 << 20)],
               [hello, message(VIEW), message(READ, flags=0)], [hello, message(VIEW), message(READ, flags=(1 << 20) + 1)],
               [hello, message(FILE, 1, 5)], [hello, message(RENAMED)], [hello, message(CANCEL, 77)],
               [hello, message(PIN, size=1 << 62, flags=0xffffffff)], [hello, message(ROOM, size=(1 << 64) - 1)],
               [hello, message(IMPORT)], [hello, message(BYTES)], [hello, message(KEEP)], [hello, message(SETTLE, size=1)],
               [hello, message(IMPORT, flags=65537) + bytes(65537)], [hello, message(IMPORT, flags=20) + bytes(20)]]
    for each in packets:
        for some in ([], *([fd] for fd in fds), fds[:3], fds[:9]):
            talk = Talk(store, hello=False)
            try:
                for packet in each:
                    talk.send(packet, *some)
                talk.socket.settimeout(0.001)
                talk.receive()
            except OSError:
                pass
            talk.close()
    # Each wrong kind, by one who is let in: an answer that it is not kept, or the end.
    for fd in fds:
        talk = Talk(store)
        answer = talk.ask(FILE, fd, value=3)
        trial.expect(answer is None or (answer[0] == DONE and (answer[4] < 0) == (fd != fds[8])), f"{fd}: {answer}")
        talk.close()


def entry(path, handle=8, path_bytes=None):
    raw = path.encode() + b"\0"
    return struct.pack("<Qq16sII128sII", 5000, 1, b"", 1, handle, b"", path_bytes or len(raw), 0) + raw + bytes(-len(raw) % 8)


def memory(data, seal=True):
    fd = os.memfd_create("m", os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    if seal:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


def alive(talk):
    try:
        return talk.ask(ALIVE)
    except OSError:
        return None


RECORDS = 16384
RIGHT = (1, 0, 0, 4000, 3)  # a record


def ring(*some):
    fd = os.memfd_create("r", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    for i, record in enumerate(some):
        os.pwrite(fd, struct.pack("<QQQII", *record), i * 32)
    os.pwrite(fd, b"BAD!" * 1000, RECORDS * 32)
    return fd


def many_rings():
    """More than one user may have."""
    os.chdir(bad)
    fds = [os.open("d", os.O_PATH), memory(entry(bad + "/d"))]
    talks = [Talk(store) for _ in range(4)]
    for i in range(1200):
        try:
            talks[i % 4].send(message(RING, i + 1), one := ring(RIGHT))
            os.close(one)
            talks[i % 4].send(message(DRAFT, i + 1, 0, flags=(i + 1) << 16 | 3), *fds)
        except OSError:
            talks[i % 4] = Talk(store)
    time.sleep(5)


def rings():
    """Rings that are none, of lying records, that end in the middle; drafts without files, of foreign ones, never ended."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    os.chdir(bad)
    chance = random.Random(9)
    with open("d", "wb") as f:
        f.write(b"BAD!" * 1000)
    names = [os.open("d", os.O_PATH), os.open("/etc/passwd", os.O_PATH), os.open("/dev/null", os.O_PATH), os.open("/", os.O_PATH)]
    lists = [memory(entry(bad + "/d")), memory(b""), memory(b"x" * 9000), memory(entry(bad + "/d"), seal=False)]
    for fd in (os.open("/etc/passwd", os.O_RDONLY), os.memfd_create("plain"), os.open("/dev/zero", os.O_RDONLY), names[0], leased("r", bytes(5000))):
        talk = Talk(store)
        talk.send(message(RING, 1), fd)
        trial.expect(not alive(talk), "a ring that is none is taken")
    for name in (os.open("d", os.O_RDONLY), os.open("/dev/null", os.O_RDWR)):
        talk = Talk(store)
        talk.send(message(DRAFT, 5, 0, flags=1 << 16 | 3), name, lists[0])
        trial.expect(not alive(talk), "a draft of a file that is open is taken")
    for what in [RIGHT, (2, 0, 0, 4000, 3), (1, 1 << 63, 0, 4000, 3), (1, 0, 1 << 62, 4000, 3), (1, 0, 0, 0xffffffff, 3), (1, 0, 1 << 20, 4000, 3),
                 (1, 0, 0, 4000, 4)] + [tuple(chance.getrandbits(chance.choice([2, 12, 32])) for _ in range(5)) for _ in range(60)]:
        for name in names[:2] if what is RIGHT else names[:1]:
            talk = Talk(store)
            talk.send(message(RING, 1), ring(what))
            listed = chance.choice(lists[:1] * 5 + lists)
            talk.send(message(DRAFT, 5, 0, flags=1 << 16 | 3), name, listed)
            try:
                talk.send(message(PULL, 1, 1))
                answer = talk.receive()
            except BrokenPipeError:  # it has hung up already
                answer = None
            trial.expect(answer or what is not RIGHT or listed != lists[0], f"{what}: hung up")
            trial.expect(answer is None or answer[0] == PULLED, f"{what}: {answer}")
            if answer:
                answer = talk.ask(SEAL, value=5, size=4000, time=7)
                trial.expect(answer is None or answer[0] == DONE and (answer[4] < 0 or name == names[0]), f"{what}: {answer}")
            talk.close()
    talk = Talk(store)
    talk.send(message(RING, 1), ring(RIGHT))
    talk.send(message(DRAFT, 5, 0, flags=1 << 16 | 3), names[0], lists[0])
    talk.send(message(PULL, 1, RECORDS + 1))
    trial.expect(not alive(talk), "more records than a ring has")
    for _ in range(300):
        talk = Talk(store) if chance.random() < 0.2 else talk
        try:
            op = chance.choice([RING, DRAFT, PULL, DROP, SEAL])
            fds = {RING: [ring(RIGHT)], DRAFT: [names[0], lists[0]]}.get(op, [])
            talk.send(message(op, chance.randrange(3), chance.choice([0, 0, 1, chance.getrandbits(64)]), flags=chance.choice([1 << 16 | 3, 0, 3])), *fds)
            for fd in fds[:1] if op == RING else []:
                os.close(fd)
        except OSError:
            talk = Talk(store)


def listings():
    """What is said to be a list of files: not sealed, cut, overlong, of strange paths and handles."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    os.chdir(bad)
    rng = random.Random(3)
    one = entry(bad + "/l")
    lists = [b"", b"x" * 1000, one, one[:-1], one * 500, entry("relative"), entry("/x", handle=129), entry("/x", path_bytes=0xffffffff),
             entry("/x", path_bytes=1), entry("/" + "y" * 5000), entry("/x" * 30000), bytes(17 << 20), os.urandom(100000),
             *(bytes(b if rng.random() > 0.02 else rng.randrange(256) for b in one * 3) for _ in range(100))]
    fd = leased("whole", bytes(5000))
    for op in (FILE, RENAMED):
        for data in lists:
            for seal in (True, False):
                talk = Talk(store)
                memfd = memory(data, seal)
                try:
                    talk.send(message(op, 1, flags=1), *([fd, memfd] if op == FILE else [memfd]))
                    answer = talk.ask(ALIVE, value=2)
                except OSError:
                    answer = None
                trial.expect(seal or answer is None, f"{op}: one that can be changed is believed")
                os.close(memfd)
                talk.close()


def imports():
    """Versions from bytes: of wrong lengths, texts, sizes and modes, too large, out of their bounds, before and after their turn."""
    rng = random.Random(11)

    def begin(path=b"/x\0", job=b"\0", size=10, mode=0o100644, settled=0, lengths=None, zero=0):
        path_bytes, job_bytes = lengths or (len(path), len(job))
        raw = struct.pack("<QqIIIIIIII", size, 5, mode, 0, 0, GOOD, settled, path_bytes, job_bytes, zero) + path + job
        return message(IMPORT, 1, flags=len(raw)) + raw

    wrong = [begin(path=b"/x"), begin(path=b"/x\0y\0"), begin(lengths=(3, 2)), begin(lengths=(0xffffffff, 5)), begin(lengths=(0, 4)),
             begin(path=b"/" + b"y" * 5000 + b"\0"), begin(size=1 << 63), begin(mode=0o040755), begin(mode=0), begin(settled=2), begin(zero=1)]
    for packet in wrong:
        talk = Talk(store)
        trial.expect(not talk.ask_raw(packet), f"answered: {packet}")
        talk.close()
    talk = Talk(store)
    for path in (b"x\0", b"/../x\0", b"/x/\0", b"//\0", b"\0"):  # no name for a version
        trial.expect(talk.ask_raw(begin(path))[4] == 0, f"{path}")
        talk.send(message(BYTES, flags=10) + b"0123456789")
        trial.expect(talk.ask(KEEP)[4] == -22, f"{path} is kept")
    trial.expect(talk.ask_raw(begin(size=1 << 40))[4] == -28, "there is room for a TiB")
    for packets in ([message(BYTES, size=5, flags=6) + b"123456"], [message(BYTES, size=1 << 63, flags=1) + b"1"]):
        talk = Talk(store)
        trial.expect(talk.ask_raw(begin())[4] == 0, "begin")
        for packet in packets:
            talk.send(packet)
        trial.expect(not talk.ask(KEEP), f"{packets} are kept")
    talk = Talk(store)
    for i in range(300):  # any order: an answer, or the end
        packet = rng.choice([begin(size=100), message(KEEP), message(BYTES, size=rng.randrange(120), flags=9) + b"x" * 9, message(SETTLE, size=rng.randrange(50))])
        try:
            if packet[6] == BYTES:
                talk.send(packet)
            elif not talk.ask_raw(packet):
                talk = Talk(store)
        except OSError:
            talk = Talk(store)
    for _ in range(5):  # begun, and no more: its room is free again
        talk = Talk(store)
        trial.expect(talk.ask_raw(begin(size=25 << 20))[4] == 0, "no room for one")
        for i in range(300):
            talk.send(message(BYTES, size=i << 16, flags=1 << 16) + bytes(1 << 16))
        talk.close()
        trial.expect(agents.until(lambda: Talk(store).ask(ALIVE), 5), "it does not hear")


def long_listings():
    """Many files that wait, each with a long list of its directory: portusd does not hold all of these."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    os.chdir(bad)
    talk = Talk(store, hello=False)
    talk.send(message(HELLO, 3))
    for i in range(12):
        fd, memfd = leased(f"n{i}", bytes(20 << 20)), os.memfd_create("portus-listing", os.MFD_ALLOW_SEALING)
        os.truncate(memfd, 7 << 20)
        fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        talk.send(message(FILE, i, flags=1), fd, memfd)
        os.close(memfd)
    print("sent", file=open("sent", "w"))
    time.sleep(5)


def listings_held():
    held = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            held += "portus-listing" in os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            pass
    return held


def changing():
    """Files that do not stay: cut, removed, written; many at once, and nobody reads the answers."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    os.chdir(bad)
    talk = Talk(store)
    for i in range(100):
        fd = leased(f"c{i}", bytes(1 << 20))
        talk.send(message(FILE, i), fd)
        os.close(fd)  # the last description: the lease goes on with portusd's copy
        if i % 3 == 0:
            os.unlink(f"c{i}")
        elif i % 3 == 1:
            talk.send(message(CANCEL, i))
        else:
            try:
                os.open(f"c{i}", os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
            except OSError:
                pass
    talk.close()
    os.chdir("/")
    deaf = [Talk(store) for _ in range(8)]
    for t in deaf:
        t.ask(VIEW)
        try:
            for i in range(200):
                t.socket.setblocking(False)
                t.send(message(READ, i, flags=1 << 20))
        except OSError:
            pass


def thief():
    """Reads all that it is given, and requests what nobody has offered."""
    talk = Talk(store)
    head, seen, offset = talk.ask(VIEW)[2], b"", 2 << 20
    while offset < head + (8 << 20):
        answer = talk.ask(READ, value=1, size=offset, flags=1024)
        trial.expect(answer and answer[0] == BYTES and answer[4] in (0, -22, -116), f"{answer[:5]}")
        if answer[4] == -22:
            break
        seen += answer[5]
        offset += 1024
    trial.expect(b"GOOD" not in seen and b"good" not in seen and good.encode() not in seen, "bytes of another user")
    trial.expect(bad.encode() in seen, "not even its own")
    rng = random.Random(5)
    for _ in range(300):
        talk = Talk(store) if rng.random() < 0.1 else talk
        try:
            answer = talk.ask(rng.choice([READ, PIN, VIEW, ALIVE, ROOM]), size=rng.getrandbits(rng.choice([3, 20, 64])),
                              flags=rng.getrandbits(rng.choice([1, 12, 20])))
            trial.expect(b"GOOD" not in (answer or [b""])[-1], "bytes of another user")
        except OSError:
            talk = Talk(store)


def crowd():
    held = []
    for _ in range(300):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.setblocking(False)
        try:
            s.connect(store.where)
            s.send(message(HELLO, 3))
        except OSError:
            pass
        held.append(s)
    time.sleep(4)


def large():
    """One that is as large as the quota, again and again."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    os.chdir(bad)
    talk = Talk(store)
    for i in range(20):
        talk.send(message(FILE, i), leased(f"big{i}", bytes(30 << 20)))
    time.sleep(6)


def beside(work):
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(BAD, BAD, BAD)
            os.setresuid(BAD, BAD, BAD)
            work()
        finally:
            os._exit(0)
    time.sleep(1)
    return child


def hanging():
    """A file system of the user's own that has stopped: nothing that is asked of its files returns."""
    if not shutil.which("bindfs") or not os.path.exists("/dev/fuse"):
        print("no bindfs: files that hang are not tried")
        return
    below, mount = os.path.join(bad, "below"), os.path.join(trial.fresh(), "mount")
    os.mkdir(below)
    os.mkdir(mount)
    os.chown(below, BAD, BAD)
    os.chmod(os.path.dirname(mount), 0o755)
    server = subprocess.Popen(["bindfs", "-f", "-o", "allow_other,attr_timeout=0,entry_timeout=0", below, mount],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if not agents.until(lambda: os.path.ismount(mount), 10):
            print("bindfs does not mount: files that hang are not tried")
            return
        reads, writes = os.pipe()

        def pass_it():
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            files = [leased(os.path.join(mount, f"h{i}"), bytes(3 << 20)) for i in range(3)]
            talks = [Talk(store) for _ in files]
            os.write(writes, b"x")
            time.sleep(1)
            talks[0].send(message(FILE, 1), *files[:1])
            talks[1].send(message(99), *files[1:])
            talks[2].send(b"garbage", files[2])
            time.sleep(3)

        child = beside(pass_it)
        os.read(reads, 1)
        server.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        serves()
        os.waitpid(child, 0)
        store.says("does not answer", 10)
        serves()
        stores.as_user(BAD, lambda: (Talk(store).welcome or [-110] * 5)[4] == -110 or trial.fail("not refused"))
        trial.expect("nothing is taken from that user" in store.said(), "nobody says it")
        serves()
    finally:
        server.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "-l", mount], check=False)
        server.kill()
        server.wait()


good, bad = stores.home(GOOD), stores.home(BAD)
kept = os.path.join(good, "good.pt")
try:
    stores.save(store, GOOD, good, {"good.pt": b"GOOD" * (1 << 18)})
    store.kept(GOOD, kept, 1)
    agents.kill(f"{trial.JOB}-{GOOD}")
    trial.expect(agents.until(lambda: not agents.pids(f"{trial.JOB}-{GOOD}"), 10), "its agent lives on")
    time.sleep(0.3)
    before = descriptors()
    stores.as_user(BAD, garbage)
    trial.expect(agents.until(lambda: descriptors() <= before + 1, 5), f"descriptors {descriptors()}, before {before}")
    serves()
    stores.as_user(BAD, listings)
    trial.expect(agents.until(lambda: descriptors() <= before + 1, 5), f"descriptors {descriptors()}, before {before}")
    serves()
    stores.as_user(BAD, imports)
    serves()
    stores.as_user(BAD, rings)
    child = beside(many_rings)
    serves()
    trial.expect(descriptors() < before + 900, f"portusd holds {descriptors()} descriptors")
    os.waitpid(child, 0)
    trial.expect(agents.until(lambda: descriptors() <= before + 1, 5), f"descriptors {descriptors()}, before {before}")
    serves()
    store.process.send_signal(signal.SIGSTOP)
    child, most = beside(long_listings), 0
    trial.expect(agents.until(lambda: os.path.exists(f"{bad}/sent"), 20, 0.1), "12 files cannot be sent")
    store.process.send_signal(signal.SIGCONT)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        most = max(most, listings_held())
    trial.expect(1 <= most <= 4, f"{most} listings of 7 MiB are held")  # two that wait, one in use, one that comes
    serves()
    stores.as_user(BAD, changing)
    trial.expect(agents.until(lambda: descriptors() <= before + 1, 10), f"descriptors {descriptors()}, before {before}")
    serves()
    stores.as_user(BAD, thief)
    serves()
    for work in (crowd, large):
        child = beside(work)
        serves()
        stores.save(store, GOOD, good, {"good.pt": b"GOOD" * (1 << 18)})
        store.kept(GOOD, kept, 2)
        store.ctl(GOOD, "rm", kept, "--version", str(store.versions(GOOD)[0]["commit"]))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    trial.expect(sum(v["stored"] for v in store.versions(BAD)) <= 32 << 20, "more than its quota")
    hanging()
    trial.expect("0 damaged" in store.ctl(0, "verify"), "damaged")
    trial.expect(len(store.said()) < 20000, "the log is full of strangers")
    trial.expect(store.end() == 0, f"its end: {store.said()}")

    # And the other way.
    def silent(s, packet):
        pass

    def flood(s, packet):
        for _ in range(1000):
            s.send(message(DONE, 1))

    def wrong(s, packet):
        s.send(os.urandom(32))

    def descriptor(s, packet):
        fd = os.open("/dev/zero", os.O_RDONLY)
        for _ in range(5):
            socket.send_fds(s, [message(WELCOME)], [fd] * 3)

    def large_view(s, packet):
        op = packet[6]
        s.send(message(WELCOME) if op == HELLO else message(DONE, size=1 << 62) if op == VIEW else message(BYTES))

    def zeros(s, packet):
        op, value = packet[6], int.from_bytes(packet[12:16], "little")
        if op == READ:
            s.send(message(BYTES, value, flags=65536) + bytes(65536))
        else:
            s.send(message(WELCOME) if op == HELLO else message(DONE, value, size=3 << 20))

    for kind in (flood, wrong, descriptor, large_view, zeros, silent):
        fake = stores.Fake(kind)
        done = subprocess.run([stores.CTL, "ls", "--store", fake.name], capture_output=True, text=True, timeout=50, check=False)
        trial.expect(done.returncode == 1 and done.stderr.startswith("portusctl: "), f"{kind.__name__}: {done}")
        store.name = fake.name
        begin = time.monotonic()
        stores.save(store, GOOD, good, {f"{kind.__name__}.pt": b"GOOD" * (1 << 18)})
        trial.expect(time.monotonic() - begin < 10, f"{kind.__name__}: a save waits")
        if kind is not silent:
            agents.kill(f"{trial.JOB}-{GOOD}")
    trial.expect(agents.until(lambda: not agents.pids(f"{trial.JOB}-{GOOD}"), 60), "an agent waits for a store that is none")
finally:
    for uid in (GOOD, BAD):
        agents.kill(f"{trial.JOB}-{uid}")
    if store.process.poll() is None:
        store.process.kill()
