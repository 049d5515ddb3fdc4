# SPDX-License-Identifier: BSD-3-Clause
# PORTUS_METRICS, portusd --metrics, and the alert rules.
# Right: what Prometheus can read, with the numbers of what was done; no file's name in it; whole at
# every moment; told to be over when the agent has ended; nothing that hinders it hinders the program.
# run: script timeout=120
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from lib import agents, program, trial

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SAVES = """
import os, sys
large = b"\\x80\\x02" + os.urandom(3 << 20)
for i in range(3):
    with open(f"secret{i}.pt", "wb", buffering=0) as f: f.write(large)
    os.rename(f"secret{i}.pt", f"other{i}.pt")
with open("linked.pt", "wb", buffering=0) as f:
    os.link("linked.pt", "c.pt"); f.write(large)
print("saved", flush=True)
sys.stdin.readline()
"""
LARGE = 2 + (3 << 20)
NUMBER = re.compile(r'^(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')


def parse(text):
    """{(name, labels): value}; each line is one."""
    found, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            types[line.split()[2]] = line.split()[3]
        if line.startswith("#"):
            continue
        name, labels, value = NUMBER.match(line).groups()
        trial.expect(name in types and (types[name] == "counter") == name.endswith("_total"), f"its type: {line}")
        found[name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))] = float(value)
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        trial.expect(done.returncode == 0 and not done.stderr, f"promtool: {done.stdout}{done.stderr}")
    return found


def value(found, name, **labels):
    rows = [v for (n, have), v in found.items() if n == name and set(labels.items()) <= have]
    trial.expect(len(rows) == 1, f"{name}: {rows} of {found}")
    return rows[0]


def saves(where, **more):
    env = program.environment(trial.JOB, "default", PORTUS_METRICS=where, PORTUS_SAMPLE=0, **more)
    process = program.start([sys.executable, "-c", SAVES], trial.fresh(), env, stdin=subprocess.PIPE)
    trial.until_line(process, "saved")
    return process


def ended(process):
    out = program.finish(process, 30)
    trial.expect(out.status == 0, f"the program: {out.how()}", out)
    trial.expect(agents.until(lambda: not agents.pids(trial.JOB), 20), "the agent stays")


directory = trial.fresh()
process = saves(directory, PORTUS_JOB=trial.JOB)
path, = agents.until(lambda: glob.glob(os.path.join(directory, "*.prom")), 10)
seen = []


def watch():
    while not stop:
        try:
            with open(path, encoding="utf-8") as f:
                seen.append(f.read())
        except OSError as e:
            seen.append(str(e))
        time.sleep(0.01)


stop, thread = False, threading.Thread(target=watch)
thread.start()
text = agents.until(lambda: "\nportus_drained_files_total" in (t := open(path, encoding="utf-8").read()) and "} 3\n" in t and t, 20, 0.2)
trial.expect(text, f"no three files: {open(path, encoding='utf-8').read()}")
found = parse(text)
trial.expect("secret" not in text and "other0" not in text and "linked" not in text, "it has the names of files")
label = {"job": trial.JOB, "node": socket.gethostname()}
mount = subprocess.run(["stat", "-c", "%m", directory], capture_output=True, text=True, check=True).stdout.strip()
trial.expect(value(found, "portus_up", **label) == 1 and value(found, "portus_capturing", **label) == 1, text)
trial.expect(value(found, "portus_drained_bytes_total", mount=mount, **label) == 3 * LARGE, text)
trial.expect(value(found, "portus_undrained_bytes", mount=mount) == 0 == value(found, "portus_drain_errors_total", mount=mount), text)
trial.expect(value(found, "portus_not_captured_total", reason="links") == 1, text)
trial.expect(value(found, "portus_not_captured_total", reason="agent") == 0, text)
trial.expect(value(found, "portus_programs") == 1 and value(found, "portus_ring_bytes") >= 16 << 20, text)
trial.expect(value(found, "portus_waits_total") >= 1 and 0 < value(found, "portus_wait_seconds_total") < 60, text)
trial.expect(abs(value(found, "portus_updated_timestamp_seconds") - time.time()) < 30, text)
trial.expect(os.stat(path).st_mode & 0o777 == 0o644, "a collector cannot read it")
ended(process)
stop = True
thread.join()
trial.expect(len(seen) > 20 and all(len(parse_out) > 1000 and parse_out.endswith("\n") for parse_out in set(seen)), "it was not whole")
with open(path, encoding="utf-8") as f:
    trial.expect(value(parse(f.read()), "portus_up") == 0, "it does not say that the agent has ended")
trial.expect(len(os.listdir(directory)) == 1, f"left: {os.listdir(directory)}")

# One file, of the program's directory; a place that there is not.
process = saves("metrics.prom")
where = os.readlink(f"/proc/{process.pid}/cwd")
trial.expect(agents.until(lambda: os.path.exists(os.path.join(where, "metrics.prom")), 10), "no metrics.prom")
ended(process)
process = saves("/no/such/directory/x")
ended(process)

# portusd.
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
pool = os.path.join(trial.fresh(), "pool")
subprocess.run([os.path.join(program.BUILD, "portusctl"), "pool", "create", pool, "256M"], stdout=subprocess.DEVNULL, check=True)
daemon = subprocess.Popen([os.path.join(program.BUILD, "portusd"), "--metrics", str(port), pool], env=program.environment(trial.JOB))


def get(what="/metrics", **options):
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{what}", **options), timeout=5) as f:
        return f.read().decode()


def answers():
    try:
        return get()
    except OSError:
        return None


trial.expect(agents.until(answers, 10), "portusd does not answer")
trial.expect(value(parse(get()), "portusd_versions") == 0, "a new pool has versions")
process = saves(directory, PORTUS_STORE=pool)
found = agents.until(lambda: value(f := parse(get()), "portusd_commits_total") == 3 and f, 20, 0.2)
trial.expect(found and value(found, "portusd_committed_bytes_total") == 3 * LARGE, f"{found}")
trial.expect(value(found, "portusd_verify_failures") == 0 and value(found, "portusd_connections") == 1, f"{found}")
trial.expect(value(found, "portusd_pool_free_bytes") < value(found, "portusd_pool_bytes") == 256 << 20, f"{found}")
ended(process)
with open(path, encoding="utf-8") as f:
    trial.expect(value(parse(f.read()), "portus_kept_total") == 3, "kept by the store")
for what, options, code in (("/", {}, 404), ("/metrics", {"data": b"x"}, 405)):
    try:
        trial.fail(f"{what}: {get(what, **options)}")
    except urllib.error.HTTPError as e:
        trial.expect(e.code == code, f"{what}: {e.code}")
# Those who say nothing, or rubbish, hinder nobody.
crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
for s in crowd[:4]:
    s.send(b"\0\xff rubbish\r\n\r\n")
trial.expect("portusd_up 1" in get(), "hindered by a crowd")
for s in crowd:
    s.close()
daemon.send_signal(signal.SIGTERM)
trial.expect(daemon.wait(20) == 0, "portusd does not end")
for wrong in ("0", "65536", "1x", ""):
    done = subprocess.run([os.path.join(program.BUILD, "portusd"), "--metrics", wrong, pool], capture_output=True, text=True, check=False)
    trial.expect(done.returncode == 2 and "--metrics" in done.stderr, f"--metrics {wrong}: {done.returncode} {done.stderr}")

if shutil.which("promtool"):
    for words in (["check", "rules", "portus.rules.yml"], ["test", "rules", "portus.rules.test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=os.path.join(TOP, "scripts/prometheus"), capture_output=True, text=True, check=False)
        trial.expect(done.returncode == 0, f"promtool {words}: {done.stdout}{done.stderr}")
else:
    print("not looked at by promtool, which is not here")
# What the rules ask for is told.
with open(os.path.join(TOP, "scripts/prometheus/portus.rules.yml"), encoding="utf-8") as f:
    names = set(re.findall(r"\bportusd?_\w+", "".join(re.findall(r"expr: .*", f.read()))))
told = {name for name, _ in found} | {name for name, _ in parse(text)}
trial.expect(names <= told, f"the rules ask for {names - told}")
print(f"{len(told)} metrics, {len(names)} in rules")
