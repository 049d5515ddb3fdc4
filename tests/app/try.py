# SPDX-License-Identifier: BSD-3-Clause
# portusctl try: a command plainly and captured, killed, run again, and on a full disk.
# Right: a program that saves well differs in nothing, and the evidence has its files; a difference
# that the shim makes is named, one that the program has by itself is told apart; what cannot be
# tried is said. Nothing is left behind but what there is to look at.
# run: script timeout=300
import json
import os
import signal
import subprocess
import sys
import time

from lib import program, trial

CTL = os.path.join(program.BUILD, "portusctl")
SAVES = """
import os, sys, time
data = b"\\x80\\x02" + bytes(range(256)) * 4096 * 5
start = int(open("latest").read()) + 1 if os.path.exists("latest") else 0
for step in range(start, 4):
    with open(f"m{step}.pt", "wb") as f: f.write(data[step:]); f.write(b"%d" % step)
    with open("latest.new", "w") as f: f.write(str(step))
    os.rename("latest.new", "latest")
    if os.path.exists(f"m{step - 2}.pt"): os.unlink(f"m{step - 2}.pt")
with open("twice.pt", "wb") as f:
    os.path.exists("twin.pt") or os.link("twice.pt", "twin.pt"); f.write(data)
print("done")
"""
# Says that the shim is there: what an unfaithful shim would look like.
TELLS = SAVES + """
if "PORTUS_TRACE" in os.environ: open("m3.pt", "r+b").write(b"x"); os.chmod("latest", 0o600); print("shim")
"""
# Differs from run to run.
RANDOM = """
import os
with open("a.pt", "wb") as f: f.write(b"\\x80\\x02" + os.urandom(5 << 20))
open(f"run-{os.getpid()}", "w").close()
print(os.getpid())
"""


def run(source, *options, status, cwd=None, tool=CTL):
    directory = cwd or trial.fresh()
    done = subprocess.run([tool, "try", "--json", *options, "--", sys.executable, "-c", source], cwd=directory, timeout=280,
                          env=program.environment(trial.JOB), capture_output=True, text=True, check=False)
    trial.expect(done.returncode == status, f"try: exit status {done.returncode}, not {status}: {done.stdout}{done.stderr}")
    return directory, json.loads(done.stdout) if status < 2 else done.stderr


directory, told = run(SAVES, "--kills", "6", status=0)
trial.expect(os.listdir(directory) == [], f"left: {os.listdir(directory)}")
saves = {s["path"]: s for s in told["saves"]}
for step in range(4):
    save = saves[f"m{step}.pt"]
    trial.expect(save["captured"] and save["size"] == 5242883 - step and save["plain_saves"] == save["saves"] == 1, f"{save}")
trial.expect(saves["twice.pt"]["reason"] == "without a name, or with several", f"{saves['twice.pt']}")
trial.expect(told["captured_bytes"] >= 20 << 20 and told["captured"] >= 4 and told["not_captured"] == 1, f"{told}")
kills = told["kills"]
trial.expect(kills["all"] + kills["program"] + kills["after_end"] == 6, f"{kills}")
trial.expect(kills["resumes_plainly"] and kills["not_resumed"] == 0, f"{kills}")
trial.expect(kills["resumed"] == kills["all"] + kills["program"] >= 1 and kills["whole"] + kills["short"] > 0, f"{kills}")
full = told["full_disk"]
trial.expect(full["how"] and full["plain"] == full["portus"] != "exit status 0", f"{full}")
trial.expect("nothing differs" in told["verdict"] and not told["differs"] and not told["by_itself"], f"{told['verdict']}")

directory, told = run(TELLS, "--kills", "0", status=1)
found = {(d["path"], d["what"]) for d in told["differences"]}
trial.expect({("m3.pt", "bytes"), ("latest", "mode"), ("standard output", "size")} <= found, f"{found}")
left, = os.listdir(directory)
trial.expect(os.path.exists(os.path.join(directory, left, "portus/m3.pt")), "what differs is not kept")

directory, told = run(RANDOM, "--kills", "2", status=0)
own = {(d["path"].split("-")[0], d["what"]) for d in told["by_itself"]}
trial.expect({("a.pt", "bytes"), ("run", "extra"), ("run", "missing")} <= own, f"{own}")

# A directory to begin with; a copy that is beside it.
directory = trial.fresh()
origin = os.path.join(directory, "origin")
os.makedirs(os.path.join(origin, "sub"))
for name, text in (("latest", "1"), ("sub/data", "x" * 99999)):
    with open(os.path.join(origin, name), "w", encoding="ascii") as f:
        f.write(text)
os.chmod(os.path.join(origin, "sub/data"), 0o440)
_, told = run(SAVES + "\nassert len(open('sub/data').read()) == 99999", "--from", ".", "--kills", "0", status=0, cwd=origin)
trial.expect("m1.pt" not in {s["path"] for s in told["saves"]}, "it did not begin where --from was")
trial.expect(os.listdir(directory) == ["origin"] and set(os.listdir(origin)) == {"latest", "sub"}, "--from is touched")

# What it tells a person.
done = subprocess.run([CTL, "try", "--kills", "2", sys.executable, "-c", SAVES], cwd=trial.fresh(), timeout=280,
                      env=program.environment(trial.JOB), capture_output=True, text=True, check=False)
for words in ("m0.pt", "not captured: without a name", "run again, ", "full disk", "verdict    nothing differs"):
    trial.expect(words in done.stdout and done.returncode == 0, f"{words!r} is not in {done.stdout}{done.stderr}")

# What cannot be tried.
_, said = run("import time; time.sleep(60)", "--timeout", "1", status=2)
trial.expect("has not ended in time" in said, said)
for arguments, words in (([], "which command"), (["--", "/no/such/program"], "cannot be run plainly"),
                         (["--from", "/no/such", "true"], "/no/such"), (["--kills", "x", "true"], "x is no number"),
                         (["--to", "/no/such", "true"], "/no/such")):
    done = subprocess.run([CTL, "try", *arguments], cwd=trial.fresh(), capture_output=True, text=True, timeout=60, check=False)
    trial.expect(done.returncode == 2 and words in done.stderr, f"{arguments}: {done.returncode} {done.stderr}")

# Interrupted: all that it has started goes, and its directory.
directory = trial.fresh()
with subprocess.Popen([CTL, "try", sys.executable, "-c", "import time; open('begun', 'w'); time.sleep(77)"], cwd=directory,
                      stderr=subprocess.DEVNULL) as process:
    while not [d for d, _, files in os.walk(directory) if "begun" in files]:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    trial.expect(process.wait(20) == 2, "interrupted: exit status")
trial.expect(os.listdir(directory) == [], f"interrupted: left {os.listdir(directory)}")

# As a user who may mount nothing: a file size limit.
if os.geteuid() == 0:
    directory = trial.fresh()
    os.chmod(directory, 0o777)
    done = subprocess.run([CTL, "try", "--json", "--kills", "0", "--", sys.executable, "-c", SAVES], cwd=directory, timeout=200,
                          env=program.environment(trial.JOB), capture_output=True, text=True, check=False, user=65534,
                          group=65534, extra_groups=[])
    if "Permission denied" not in done.stderr:  # the tree may be a place that others cannot enter
        trial.expect(done.returncode == 0, f"another user: {done.returncode}: {done.stdout}{done.stderr}")
        full = json.loads(done.stdout)["full_disk"]
        trial.expect(full["how"] == "a file size limit of" and full["plain"] == full["portus"] != "exit status 0", f"{full}")
