# SPDX-License-Identifier: BSD-3-Clause
# SQLite's own speedtest1, with what it verifies: rollback journals and WAL, locks or none (then its files qualify for
# capture), three kinds of sync, its sets of tests. Its source is the distribution's, fetched once.
# Right: what it says, but times, and the database it leaves are as without the shim, and every check finds that whole.
# run: script by=check-world timeout=1200
import glob
import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import tarfile

from lib import program, trial, world

# Rollback journals; WAL without shared memory wants a process alone.
JOURNALS = "--journal delete --vfs unix-none", "--journal truncate --vfs unix-none", "--journal persist --vfs unix-none", \
    "--journal wal --vfs unix-none --exclusive", "--journal wal", "--journal delete"
MORE = "", "--nosync", "--testset cte", "--testset fp", "--testset orm", "--testset rtree", "--pagesize 65536 --cachesize 9", \
    "--autovacuum", "--without-rowid --primarykey"


def source():
    """speedtest1.c, out of the source package that apt knows or can be told of; None, and why."""
    where = os.path.join(program.BUILD, "tests/world")
    found = os.path.join(where, "speedtest1.c")
    if os.path.exists(found):
        return found, None
    os.makedirs(f"{where}/apt/lists/partial", exist_ok=True)
    said = subprocess.run(["apt-get", "indextargets", "--format", "$(COMPONENT) $(REPO_URI) $(RELEASE)", "Created-By: Packages"],
                          capture_output=True, text=True, check=False).stdout
    with open(f"{where}/apt/sources.list", "w", encoding="ascii") as f:
        for component, uri, release in sorted({tuple(line.split()) for line in said.splitlines() if line.startswith("main ")}):
            f.write(f"deb-src {uri} {release} {component}\n")
    options = ["-q", "-o", f"Dir::Etc::SourceList={where}/apt/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null", "-o",
               f"Dir::State::Lists={where}/apt/lists", "-o", "APT::Sandbox::User=root"]
    for argv in (["update"], ["source", "--download-only", "sqlite3"]):
        done = subprocess.run(["apt-get", *options, *argv], cwd=f"{where}/apt", capture_output=True, text=True, check=False)
    archives = glob.glob(f"{where}/apt/sqlite3_*.orig.tar*")
    if archives:
        with tarfile.open(archives[0]) as tar:
            member = next(m for m in tar if m.name.endswith("/test/speedtest1.c"))
            with open(found, "wb") as f:
                f.write(tar.extractfile(member).read())
    shutil.rmtree(f"{where}/apt")
    return (found, None) if archives else (None, (done.stderr.strip().splitlines() or ["no source package"])[-1])


def once(words):
    def run(place):
        out = place.run([built, "--size", "8", "--verify", "--stats", *words.split(), "test.db"], 600)
        said = re.sub(r"\d+\.\d+s|\.{2,}", "#", out.out.decode(errors="replace"))
        said = re.sub(r"(?m)^-- (?!Verification).*$", "", said)
        found = {"end": out.how(), "errors": out.err, "said": said, "verified": "Verification Hash" in said,
                 "files": sorted(os.listdir(place.path))}
        db = sqlite3.connect(f"{place.path}/test.db")
        found["check"] = db.execute("pragma integrity_check").fetchall()
        found["dump"] = hashlib.sha256("\n".join(db.iterdump()).encode()).hexdigest() if "rtree" not in words else ""
        db.close()
        return found
    return run


world.tools("gcc", "apt-get")
file, why = source()
if file is None:
    trial.skip(f"no source of SQLite: {why}")
built = os.path.join(trial.TOP, "speedtest1")
done = subprocess.run(["gcc", "-O2", "-o", built, file, "-lsqlite3", "-lm"], capture_output=True, text=True, check=False)
if done.returncode != 0:
    trial.skip(f"speedtest1 is not built (sh scripts/install-deps zoo): {done.stderr.splitlines()[:1]}")
suite = world.Suite("speedtest")
for journal in JOURNALS:
    for more in MORE if "unix-none" in journal and "truncate" not in journal and "persist" not in journal else MORE[:1]:
        suite.case(f"{journal} {more}".strip(), once(f"{journal} {more}"))
suite.end("SQLite " + sqlite3.sqlite_version)
