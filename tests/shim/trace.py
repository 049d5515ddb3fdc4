# SPDX-License-Identifier: BSD-3-Clause
# PORTUS_TRACE: a timeline of what program, agent and store did.
# Right: valid JSON, in Chrome's format; each save with its size and whether it is captured; captures
# and drains of the same bytes; waits named by their calls; ends follow beginnings. Without the
# variable, or where the file cannot be made, the program goes as ever.
# run: script
import json
import os
import subprocess
import sys

from lib import agents, program, trial

SAVES = """
import os, sys
large = b"\\x80\\x02" + os.urandom(3 << 20)
for i in range(2):
    with open(f"m{i}.pt", "wb", buffering=0) as f: f.write(large); f.write(large)
    os.rename(f"m{i}.pt", f"n{i}.pt")
with open("a.pt", "ab", buffering=0) as f: f.write(b"x")
with open("b.pt", "wb", buffering=0) as f:
    os.link("b.pt", "c.pt"); f.write(large)
if os.fork() == 0:
    with open("child.pt", "wb", buffering=0) as f: f.write(large)
    with open("child.pt", "rb") as f: assert f.read() == large
    os._exit(0)
with open("parent.pt", "wb", buffering=0) as f: f.write(large); os.fsync(f.fileno())
os.wait()
"""
LARGE = 2 + (3 << 20)


def events(path):
    with open(path, encoding="ascii") as f:
        text = f.read()
    trial.expect(text.startswith("[\n") and text.count("[\n") == 1, f"it begins so: {text[:80]!r}")
    return json.loads(text.rstrip().rstrip(",") + "]")


def run(where, **more):
    directory = trial.fresh()
    out = program.run([sys.executable, "-c", SAVES], directory, program.environment(trial.JOB, "default", PORTUS_TRACE=where,
                      PORTUS_SAMPLE=0, **more), 60)
    trial.expect(out.status == 0, f"trace {where}: {out.how()}", out)
    agents.until(lambda: not agents.pids(trial.JOB), 20)
    return directory, out


directory, _ = run("trace.json")
found = events(os.path.join(directory, "trace.json"))
names = {e["pid"]: e["args"]["name"] for e in found if e["ph"] == "M"}
trial.expect(sorted(names.values()).count("portus-agent") >= 1 and len(names) >= 3, f"processes: {names}")
for event in found:
    trial.expect(event["ph"] in "MXibe" and event["pid"] in names and event["tid"] > 0, f"{event}")
    trial.expect(event["ph"] == "M" or event["ts"] > 0, f"{event}")
    trial.expect((event["ph"] == "X") == ("dur" in event) and event.get("dur", 0) >= 0, f"{event}")
ids = {}
for event in sorted((e for e in found if e["ph"] in "be"), key=lambda e: e["ts"]):
    key = event["name"], event["id"]
    trial.expect((event["ph"] == "b") == (key not in ids), f"out of order: {event}")
    ids.setdefault(key, []).append(event)
saves = {os.path.basename(b["args"]["file"]): (b, e) for (name, _), (b, e) in ids.items() if name == "save"}
for name, size in (("m0.pt", 2 * LARGE), ("m1.pt", 2 * LARGE), ("child.pt", LARGE), ("parent.pt", LARGE)):
    begin, end = saves[name]
    trial.expect(begin["args"]["captured"] is True and end["args"]["size"] == size, f"{name}: {begin} {end}")
    trial.expect(begin["args"]["file"] == os.path.join(directory, name), f"{begin}")
begin, _ = saves["b.pt"]
trial.expect(begin["args"] == {"file": os.path.join(directory, "b.pt"), "captured": False,
                               "reason": "without a name, or with several"}, f"{begin}")
trial.expect(saves["child.pt"][0]["pid"] != saves["parent.pt"][0]["pid"], "a child is another process")
total = {name: sum(e["args"]["bytes"] for e in found if e["name"] == name) for name in ("capture", "drain")}
trial.expect(total["capture"] == total["drain"] == 6 * LARGE, f"bytes: {total}")
waits = {e["name"] for e in found if e.get("cat") == "wait"}
trial.expect({"rename", "fsync"} <= waits, f"waits: {waits}")
live = [e for (name, _), pair in ids.items() if name == "live" for e in pair]
trial.expect(len(live) == 8 and all(e["args"]["error"] == 0 for e in live), f"live: {live}")

# In a run that changes nothing: the same saves, none of them captured.
directory, _ = run("trace.json", PORTUS="report")
reasons = {os.path.basename(e["args"]["file"]): e["args"]["reason"] for e in events(os.path.join(directory, "trace.json"))
           if e["name"] == "save" and e["ph"] == "b"}
trial.expect(reasons == {**dict.fromkeys(("m0.pt", "m1.pt", "child.pt", "parent.pt"), "PORTUS=report"),
                         "b.pt": "without a name, or with several"}, f"report: {reasons}")

# Nothing that hinders it hinders the program.
run("/no/such/directory/trace")
run("")
directory, out = run("trace.json", PORTUS="off")
trial.expect(not os.path.exists(os.path.join(directory, "trace.json")), "PORTUS=off writes one")

# What the store did.
pool = os.path.join(trial.fresh(), "pool")
subprocess.run([os.path.join(program.BUILD, "portusctl"), "pool", "create", pool, "256M"], stdout=subprocess.DEVNULL, check=True)
path = os.path.join(trial.fresh(), "trace.json")
run(path, PORTUS_STORE=pool)
run(path, PORTUS_STORE=pool)  # now it is there when a file engages, and pulls
kept = agents.until(lambda: len([e for e in events(path) if e["name"] == "commit"]) >= 16 and events(path), 20, 0.2)
trial.expect(kept, "no eight commits")
commits = {e["args"]["commit"]: e["pid"] for e in kept if e["name"] == "commit" and e["ph"] == "b"}
asked = {e["args"]["commit"] for e in kept if e["name"] == "keep" and e["ph"] == "e" and e["args"]["error"] == 0}
names = {e["pid"]: e["args"]["name"] for e in kept if e["ph"] == "M"}
trial.expect({names[pid] for pid in commits.values()} == {"portusd"} and asked == commits.keys(), f"{commits} {asked}")
trial.expect(any(e["name"] == "pull" for e in kept), "no pull")
trial.end_stores(pool)
print(f"{len(found)} events, {len(kept)} with a store")
