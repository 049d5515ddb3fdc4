# SPDX-License-Identifier: BSD-3-Clause
# One portusd for all users of a host (PORTUS_STORE=unix:PATH), run by a user of its own who may not enter
# their directories.
# Right: each finds, reads, pins and removes its own versions and no others', by portusctl's usual output;
# each has its quota, and pays for it alone; SIGHUP reads the limits again, SIGTERM finishes what was handed
# over; a portusd that is stopped or gone costs no save.
# run: script root timeout=180
import hashlib
import os
import shutil
import signal
import subprocess
import time

from lib import agents, program, stores, trial

A, B = 60101, 60102


def look(path):
    status = os.stat(path)
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest(), status.st_mode, status.st_mtime_ns, status.st_uid


def bytes_of(seed, size=3 << 20):
    return bytes(range(seed, seed + 128)) * (size // 128) + b"end"


store = stores.Store(config="default sessions 8\n", PORTUS_LOG="debug")
try:
    a, b = stores.home(A), stores.home(B)
    one, two = os.path.join(a, "m.pt"), os.path.join(b, "m.pt")
    stores.save(store, A, a, {"m.pt": bytes_of(1), "n.pt": bytes_of(2, 5 << 20)})
    stores.save(store, B, b, {"m.pt": bytes_of(3)})
    store.kept(A, one, 1)
    store.kept(A, os.path.join(a, "n.pt"), 1)
    store.kept(B, two, 1)

    # Each sees its own; root and the one who runs it see all.
    trial.expect({v["path"] for v in store.versions(A)} == {one, os.path.join(a, "n.pt")}, "what A sees")
    trial.expect({v["path"] for v in store.versions(B)} == {two}, "what B sees")
    for uid in (0, stores.OWNER):
        trial.expect(len(store.versions(uid)) == 3, f"what {uid} sees")
    trial.expect(store.versions(60103) == [], "what a stranger sees")
    local = subprocess.run([stores.CTL, "versions", "--store", store.pool, "--json", "/"], capture_output=True, text=True,
                           check=True, **stores.user(stores.OWNER))
    remote = subprocess.run([stores.CTL, "versions", "--store", store.name, "--json", "/"], capture_output=True, text=True,
                            check=True, **stores.user(stores.OWNER))
    trial.expect(local.stdout == remote.stdout, "another output than that of the pool itself")
    trial.expect("2 versions are good, 0 damaged" in store.ctl(A, "verify"), "verify")
    print(store.ctl(A, "ls"), store.ctl(A, "pool", "info", store.name))

    # What B knows of A's versions it cannot use.
    number = store.versions(A, one)[0]["commit"]
    for words in (["pin", one], ["unpin", one], ["rm", one, "--version", str(number)], ["restore", one]):
        store.ctl(B, *words, status=1)

    def thief():
        talk = stores.Talk(store)
        for op in (stores.PIN, stores.REMOVE):
            for n in (number, number + 1000000):  # one that is A's, and one that does not exist
                trial.expect(talk.ask(op, size=n)[4] == -2, f"an answer to {op} of {n}")
        trial.expect(talk.ask(stores.ROOM, size=1 << 60)[4] == 0, "no answer to gc")

    stores.as_user(B, thief)
    trial.expect(len(store.versions(A)) == 2, "a version of A is gone")
    store.ctl(A, "pin", one)
    trial.expect(store.versions(A, one)[0]["pinned"], "not pinned")
    store.ctl(A, "unpin", one)

    # Lost, and brought back: byte for byte, with its mode and time, the user's own.
    before = look(one)
    os.unlink(one)
    trial.expect("restored" in store.ctl(A, "restore", one), "not restored")
    trial.expect(look(one) == before, "restored to something else")
    os.truncate(one, 1000001)
    trial.expect("completed" in store.ctl(A, "restore", one), "not completed")
    trial.expect(look(one) == before, "completed to something else")

    # A second save of the same file is a second version; the first is restored by its number.
    stores.save(store, A, a, {"m.pt": bytes_of(9)})
    store.kept(A, one, 2)
    store.ctl(A, "restore", one, "--version", str(number), "--force")
    trial.expect(look(one) == before, "restored to another version")
    store.ctl(A, "rm", one, "--version", str(number))
    trial.expect(len(store.versions(A, one)) == 1, "not removed")

    # What A imports is A's alone, and counts as such; it is no file of another's, and not set-user-ID. Root keeps whose each is.
    os.chmod(one, 0o4755)
    os.utime(one, ns=(1, 10**18))
    copied = subprocess.run([stores.CTL, "export", "--tar", "--all", "--store", store.name], capture_output=True, check=True).stdout
    theirs = subprocess.run(["tar", "-c", "--owner=0", "--group=0", "-C", a, "m.pt"], capture_output=True, check=True).stdout
    for _ in range(2):
        done = subprocess.run([stores.CTL, "import", "--tar", "--store", store.name], input=theirs, capture_output=True, check=True, **stores.user(A))
    trial.expect(b"0 versions imported, 1 were there" in done.stdout, f"imported twice: {done}")
    (v,) = store.versions(A, "/m.pt")
    trial.expect((v["uid"], v["mode"]) == (A, 0o755), f"imported: {v}")
    trial.expect(store.versions(B, "/m.pt") == [], "B sees what A has imported")
    store.ctl(A, "rm", "/m.pt", "--version", str(v["commit"]))
    seen = {uid: len(store.versions(uid)) for uid in (A, B)}
    subprocess.run([stores.CTL, "import", "--tar", "--all", "--store", store.name], input=copied, check=True)
    trial.expect({uid: len(store.versions(uid)) for uid in (A, B)} == {uid: 2 * n for uid, n in seen.items()}, "imported by root")
    for uid in (A, B):
        for v in store.versions(uid)[seen[uid]:]:
            store.ctl(uid, "rm", v["path"], "--version", str(v["commit"]))

    # A directory is a whole set; it comes back as one, and is followed when it is renamed.
    os.mkdir(os.path.join(a, "ck"), 0o700)
    os.chown(os.path.join(a, "ck"), A, A)
    stores.save(store, A, a, {f"ck/{i}.pt": bytes_of(60 + i, 2 << 20) for i in range(3)})
    for i in range(3):
        store.kept(A, os.path.join(a, f"ck/{i}.pt"), 1)
    trial.expect([v["settled"] for v in store.versions(A, os.path.join(a, "ck"))][-1], "the set is not settled")
    with open(os.path.join(a, "ck/0.pt"), "r+b") as f:  # changed behind the store's back
        f.write(b"changed")
    stores.save(store, A, a, {"ck/1.pt": bytes_of(70, 2 << 20)})
    store.kept(A, os.path.join(a, "ck/1.pt"), 2)
    trial.expect(not store.versions(A, os.path.join(a, "ck/1.pt"))[-1]["settled"], "settled, with a file that is another")
    stores.save(store, A, a, {"ck/0.pt": bytes_of(71, 2 << 20)})
    store.kept(A, os.path.join(a, "ck/0.pt"), 2)
    trial.expect(store.versions(A, os.path.join(a, "ck/0.pt"))[-1]["settled"], "not settled again")
    whole = {i: look(os.path.join(a, f"ck/{i}.pt")) for i in range(3)}
    out = program.run(["mv", "ck", "ck-1"], a, program.environment(f"{trial.JOB}-{A}", "all", PORTUS_STORE=store.name), 30,
                      **stores.user(A))
    trial.expect(out.status == 0, out.how(), out)
    for i in range(3):
        store.kept(A, os.path.join(a, f"ck-1/{i}.pt"), 1)
    shutil.rmtree(os.path.join(a, "ck-1"))
    store.ctl(A, "restore", os.path.join(a, "ck-1"))
    trial.expect({i: look(os.path.join(a, f"ck-1/{i}.pt")) for i in range(3)} == whole, "another set")
    for v in store.versions(A, os.path.join(a, "ck-1")) + store.versions(A, os.path.join(a, "ck")):
        store.ctl(A, "rm", v["path"], "--version", str(v["commit"]))

    # What is saved is pulled out of the ring: the daemon has it when the program is through, and it is that user's.
    program.run(["dash", "-c", "for i in 1 2 3; do dd if=/dev/urandom of=p$i.pt bs=1M count=3; sleep 0.5; done"], b,
                program.environment(f"{trial.JOB}-{B}", "all", PORTUS_STORE=store.name), 30, **stores.user(B))
    for i in (1, 2, 3):
        store.kept(B, os.path.join(b, f"p{i}.pt"), 1)
    trial.expect(", 0 of them from the file" in store.said(), f"nothing is pulled out of a ring: {store.said()}")
    trial.expect(store.versions(A, b) == [], "A sees what B has saved")
    before = {i: look(os.path.join(b, f"p{i}.pt")) for i in (1, 2, 3)}
    for i in (1, 2, 3):
        os.unlink(os.path.join(b, f"p{i}.pt"))
        store.ctl(B, "restore", os.path.join(b, f"p{i}.pt"))
        trial.expect(look(os.path.join(b, f"p{i}.pt")) == before[i], "pulled, and comes back as something else")
        store.ctl(B, "rm", os.path.join(b, f"p{i}.pt"), "--version", str(store.versions(B, os.path.join(b, f"p{i}.pt"))[-1]["commit"]))

    # Quotas: B's older versions make room for its newer ones, A's do not.
    store.write_config(f"default sessions 8\nkeep 1\nuser {B} bytes 10M sessions 4 # three files\n")
    store.process.send_signal(signal.SIGHUP)
    store.says("is read again")
    for i in range(5):
        stores.save(store, B, b, {f"step{i}.pt": bytes_of(20 + i)})
        store.kept(B, os.path.join(b, f"step{i}.pt"), 1)
    trial.expect(len(store.versions(B)) <= 3, f"more than its quota: {store.versions(B)}")
    trial.expect(sum(v["stored"] for v in store.versions(B)) <= 10 << 20, "more than its quota")
    trial.expect(len(store.versions(A)) == 2, "A has paid for B")
    stores.save(store, B, b, {"big.pt": bytes_of(1, 11 << 20)})
    trial.expect(agents.until(lambda: "is full" in subprocess.run(
        [stores.CTL, "status"], env=program.environment(f"{trial.JOB}-{B}"), capture_output=True, text=True, check=False,
        **stores.user(B)).stdout, 10), "nobody says that there is no room")
    store.write_config(f"user {B} objects 2\n")
    store.process.send_signal(signal.SIGHUP)
    trial.expect(agents.until(lambda: store.said().count("is read again") == 2, 5), "not read again")
    stores.save(store, B, b, {"last.pt": bytes_of(7)})
    store.kept(B, os.path.join(b, "last.pt"), 1)
    trial.expect(len(store.versions(B)) == 2, "more or fewer than two")

    # Sessions.
    def crowd():
        talks = [stores.Talk(store) for _ in range(4)]
        trial.expect([t.welcome[4] for t in talks] == [0] * 4, "not let in")
        more = stores.Talk(store)
        trial.expect(more.welcome is None or more.welcome[4] == -87, f"one too many: {more.welcome}")

    store.write_config(f"user {B} sessions 4\n")
    store.process.send_signal(signal.SIGHUP)
    trial.expect(agents.until(lambda: store.said().count("is read again") == 3, 5), "not read again")
    agents.kill(f"{trial.JOB}-{B}")
    time.sleep(0.2)
    stores.as_user(B, crowd)

    # A wrong file: each wrong line is named, and nothing changes.
    store.write_config("keep 0\nuser nobody-of-that-name\n\nlimit 3\ndefault bytes 10X\nuser 3 objects\nuser 3\n")
    store.process.send_signal(signal.SIGHUP)
    store.says("the limits of before are kept")
    for line in (1, 2, 4, 5, 6):
        trial.expect(f"portusd.conf:{line}: " in store.said(), f"line {line} is not named: {store.said()}")
    trial.expect("portusd.conf:3" not in store.said() and "portusd.conf:7" not in store.said(), "right lines are named")
    stores.as_user(B, crowd)

    # Told to end: what was handed over is kept. Then it is gone, and a save is as ever; then there again.
    stores.save(store, A, a, {f"many{i}.pt": bytes_of(30 + i) for i in range(4)})
    trial.expect(store.end() == 0, f"its end: {store.said()}")
    trial.expect(not os.path.exists(store.where), "its socket is left")
    stores.save(store, A, a, {"gone.pt": bytes_of(50)})
    trial.expect(look(os.path.join(a, "gone.pt"))[0] == hashlib.sha256(bytes_of(50)).hexdigest(), "not saved")
    store.write_config("")
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0:
        store.hidden = (a, b)  # where it is now those directories are empty
    store.start()
    agents.kill(f"{trial.JOB}-{A}")
    stores.save(store, A, a, {"again.pt": bytes_of(51)})
    store.kept(A, os.path.join(a, "again.pt"), 1)
    out = program.run(["mv", "again.pt", "moved.pt"], a, program.environment(f"{trial.JOB}-{A}", "all", PORTUS_STORE=store.name),
                      30, **stores.user(A))
    trial.expect(out.status == 0, out.how(), out)
    store.kept(A, os.path.join(a, "moved.pt"), 1)
    os.unlink(os.path.join(a, "moved.pt"))
    store.ctl(A, "restore", os.path.join(a, "moved.pt"))
    trial.expect(look(os.path.join(a, "moved.pt"))[0] == hashlib.sha256(bytes_of(51)).hexdigest(), "not restored")
    trial.expect("0 damaged" in store.ctl(0, "verify"), "damaged")

    # Killed: the socket that it leaves is taken over. Two at one socket or pool: the second ends.
    store.end(signal.SIGKILL)
    store.start()
    second = subprocess.run([stores.DAEMON, "--listen", store.where + "2", store.pool], capture_output=True, text=True,
                            timeout=10, check=False, **stores.user(stores.OWNER))
    trial.expect(second.returncode == 1 and "another process" in second.stderr, f"two on one pool: {second}")

    # It scrubs, too, but goes by no path of theirs, even where it could.
    public = trial.fresh()
    os.chown(public, A, A)
    stores.save(store, A, public, {"p.pt": bytes_of(53)})
    store.kept(A, os.path.join(public, "p.pt"), 1)
    trial.expect(store.end() == 0, "its end")
    with open(store.pool, "r+b") as f:
        data = f.read()
        f.seek(data.index(bytes_of(53)[:4096]))
        f.write(b"damage")
    del data
    store.environment["PORTUS_SCRUB"] = "1G"
    store.start()
    store.says("0 versions repaired, 1 are damaged", 20)

    # Stopped: saves go on, and somebody says it.
    store.process.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    stores.save(store, A, a, {"stopped.pt": bytes_of(52)})
    trial.expect(time.monotonic() - begin < 10, "a save waits for a store that is stopped")
    trial.expect(agents.until(lambda: "does not answer" in subprocess.run(
        [stores.CTL, "status"], env=program.environment(f"{trial.JOB}-{A}"), capture_output=True, text=True, check=False,
        **stores.user(A)).stdout, 40, 0.5), "nobody says that the store does not answer")
    store.process.send_signal(signal.SIGCONT)
    trial.expect(store.end() == 0, "its end")

    # A configuration that is wrong from the beginning.
    store.write_config("nonsense\n")
    wrong = subprocess.run([stores.DAEMON, "--listen", store.where, "--config", store.config, store.pool],
                           capture_output=True, text=True, timeout=10, check=False, **stores.user(stores.OWNER))
    trial.expect(wrong.returncode == 2 and "portusd.conf:1: " in wrong.stderr, f"a wrong configuration: {wrong}")
finally:
    for uid in (A, B):
        agents.kill(f"{trial.JOB}-{uid}")
    if store.process.poll() is None:
        store.process.kill()
