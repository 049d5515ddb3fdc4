# SPDX-License-Identifier: BSD-3-Clause
# SQLite: rollback journals and WAL, each kind of sync, with its locks and without (then its files qualify for capture),
# transactions that are rolled back, savepoints, VACUUM, backups, a writer and readers at once; and what a process leaves that
# ends or is killed in a transaction: a hot journal, a WAL.
# Right: every check finds it whole, the dumps are the same, and after a kill of the writer what was committed is there.
# run: script timeout=300
import os
import sqlite3
import sys

from lib import program, trial, world

# mode, synchronous, nolock or not, rounds. Prints what a reader of the database sees.
WORK = r"""
import hashlib, os, sqlite3, sys, threading
mode, sync, how, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
def opened(name):
    db = sqlite3.connect(f"file:{name}?{how}", uri=True, timeout=60, isolation_level=None)
    db.execute(f"pragma journal_mode={mode}"), db.execute(f"pragma synchronous={sync}")
    return db
def told(what, db):
    dump = hashlib.sha256("\n".join(db.iterdump()).encode()).hexdigest()[:16]
    print(what, db.execute("pragma integrity_check").fetchall(), dump, flush=True)
db = opened("a.db")
db.execute("pragma cache_size=20")
db.execute("create table t(i integer primary key, s text, b blob)")
db.execute("create index x on t(s)")
words = ["a", "checkpoint", "is", "saved", "before", "it", "is", "needed"]
for r in range(rounds):
    db.execute("begin")
    for i in range(400):
        db.execute("insert into t(s, b) values (?, ?)", (" ".join(words[(i * k + r) % 8] for k in range(12)), bytes([i % 256]) * (i * 7 % 3000)))
    db.execute("savepoint p")
    db.execute("update t set s = s || ' later' where i % 5 = ?", (r % 5,))
    db.execute("rollback to p" if r % 3 == 0 else "release p")
    db.execute("delete from t where i % 11 = ?", (r % 11,))
    db.execute("rollback" if r % 4 == 3 else "commit")
    if r % 5 == 4:
        db.execute("vacuum")
    if mode == "wal" and r % 2:
        db.execute("pragma wal_checkpoint(truncate)")
told("rounds", db)
db.execute(f"vacuum into '{mode}.vacuumed'")
other = sqlite3.connect("copied.db")
db.backup(other, pages=7)
told("copied", other), other.close()
if how == "mode=rwc":
    def read():
        mine = opened("a.db")
        for _ in range(20):
            assert mine.execute("select count(*) from t where length(s) > 0").fetchone()[0] > 0
        mine.close()
    readers = [threading.Thread(target=read) for _ in range(3)]
    [t.start() for t in readers]
    for i in range(60):
        db.execute("insert into t(s) values (?)", (f"row {i}",))
    [t.join() for t in readers]
told("readers", db)
db.close()
print(sorted(os.listdir()))
"""
# Ends in the middle of a transaction that has reached the disk; those before have been committed.
TORN = r"""
import os, signal, sqlite3, sys
db = sqlite3.connect(f"file:b.db?{sys.argv[3]}", uri=True, isolation_level=None)
db.execute(f"pragma journal_mode={sys.argv[1]}"), db.execute(f"pragma synchronous={sys.argv[2]}")
db.execute("pragma cache_size=5"), db.execute("create table t(i integer primary key, b blob)")
for i in range(8):
    db.execute("begin")
    for _ in range(50):
        db.execute("insert into t(b) values (randomblob(2000))")
    db.execute("commit")
    print("committed", i, flush=True)
db.execute("begin")
db.execute("update t set b = zeroblob(2000)")
os.kill(os.getpid(), signal.SIGKILL) if sys.argv[4] == "kill" else os._exit(3)
"""


def case(mode, sync, how):
    def once(place):
        found = {}
        out = place.run([sys.executable, "-c", WORK, mode, sync, how, "12" if world.WHOLE else "5"], 240)
        for i, line in enumerate(out.out.decode().splitlines()):
            found[f"line {i}"] = line
        found["end"] = out.how()
        for end in ("exit", "kill"):
            for name in ("b.db", "b.db-journal", "b.db-wal", "b.db-shm"):
                if os.path.exists(f"{place.path}/{name}"):
                    os.unlink(f"{place.path}/{name}")
            out = place.run([sys.executable, "-c", TORN, mode, sync, how, end], 60)
            db = sqlite3.connect(f"{place.path}/b.db")
            found[f"after {end}"] = (out.how(), out.out, db.execute("pragma integrity_check").fetchall(),
                                     db.execute("select count(*), sum(b = zeroblob(2000)) from t").fetchall())
            db.close()
        for name in sorted(os.listdir(place.path)):
            if name.endswith((".vacuumed", "copied.db", "a.db")):
                db = sqlite3.connect(f"{place.path}/{name}")
                found[name] = db.execute("pragma integrity_check").fetchall(), len(list(db.iterdump()))
                db.close()
        return found
    return once


suite = world.Suite("sqlite")
MODES = "delete truncate persist wal".split() if world.WHOLE else ["delete"]
for mode in MODES:
    for sync in ("full", "off", "extra") if world.WHOLE else ("full",):
        for how in ("mode=rwc", "nolock=1"):
            if world.WHOLE or how == "nolock=1":
                if mode == "wal" and how == "nolock=1":
                    how = "vfs=unix-excl"  # WAL wants shared memory, or one process alone
                suite.case(f"{mode}, synchronous={sync}, {how}", case(mode, sync, how))
suite.end("SQLite " + sqlite3.sqlite_version)
