# SPDX-License-Identifier: BSD-3-Clause
# The wheel: made, installed by pip into a new environment elsewhere, and into a system with glibc 2.31.
# Right: the same sources make the same wheel; nothing of it needs a glibc newer than 2.28, and a wheel of other
# binaries is refused; torch.save under portus-run, by the agent of the wheel, is captured and gives the same bytes.
# run: script by=check-site root slow timeout=1500 disk=3
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from lib import agents, program, site, summary, trial, tree

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def make(directory):
    env = {k: v for k, v in program.environment(trial.JOB).items() if k not in ("MAKEFLAGS", "B")}
    done = subprocess.run(["sh", os.path.join(TOP, "scripts/wheel"), directory], capture_output=True, text=True, env=env, check=False)
    if done.returncode == 69:
        trial.skip(done.stderr.strip().splitlines()[-1])
    trial.expect(done.returncode == 0, f"scripts/wheel: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.split()[-1]


def run(*argv, cwd=None, **env):
    return program.run(list(argv), cwd or trial.TOP, {**program.environment(trial.JOB), **env}, 300)


def agent():
    """The program that the agent of this job is."""
    for pid in agents.pids(trial.JOB):
        try:
            path = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue
        if path.endswith("/portus-agent"):
            return path
    return None


first, second = make(trial.fresh()), make(trial.fresh())
with open(first, "rb") as a, open(second, "rb") as b:
    trial.expect(a.read() == b.read(), "made twice, it is not the same")

# --- what is in it ---
unpacked = trial.fresh()
shutil.unpack_archive(first, unpacked, "zip")
binaries = [p for p in glob.glob(f"{unpacked}/**/*", recursive=True) if os.path.isfile(p) and open(p, "rb").read(4) == b"\x7fELF"]
trial.expect(len(binaries) == 3, f"{len(binaries)} binaries")
for path in binaries:
    table = subprocess.run(["objdump", "-T", "-p", path], capture_output=True, text=True, check=True).stdout
    newer = [v for v in re.findall(r"GLIBC_2\.(\d+)", table) if int(v) > 28]
    trial.expect(not newer, f"{path} needs glibc 2.{newer}")
    trial.expect(set(re.findall(r"NEEDED +(\S+)", table)) == {"libc.so.6"}, f"{path}: other libraries")

newest = max(int(v) for v in re.findall(r"GLIBC_2\.(\d+)", subprocess.run(["objdump", "-T", f"{program.BUILD}/portus-agent"],
                                                                      capture_output=True, text=True, check=True).stdout))
if newest > 28:
    shutil.copy(f"{program.BUILD}/portus-agent", glob.glob(f"{unpacked}/*.data/data/lib/portus")[0])
    wrong = os.path.join(trial.fresh(), os.path.basename(first))
    os.rename(shutil.make_archive(wrong, "zip", unpacked), wrong)
    done = subprocess.run(["sh", os.path.join(TOP, "scripts/wheel"), "--check", wrong], capture_output=True, text=True, check=False)
    trial.expect(done.returncode == 1 and "is not what its name says" in done.stderr, f"a wrong wheel passes: {done}")

# --- in an environment ---
home = tempfile.mkdtemp(dir="/var/tmp", prefix="portus-wheel-")
try:
    trial.expect(run(sys.executable, "-m", "venv", f"{home}/v").status == 0, "no environment")
    out = run(f"{home}/v/bin/python", "-m", "pip", "-q", "install", "--no-index", first)
    trial.expect(out.status == 0, "pip does not install it", out)
    bin_ = f"{home}/v/bin"
    out = run(f"{bin_}/portusctl", "version")
    trial.expect(f"{home}/v/lib/portus/libportus_shim.so".encode() in out.out, "its shim is another", out)
    out = run(f"{bin_}/portusctl", "doctor", f"{bin_}/python", trial.TOP)
    trial.expect(out.status in (0, 1) and b"off  " not in out.out, "doctor", out)
    out = run(f"{bin_}/portusctl", "ls")
    trial.expect(out.status == 2 and b"built without the store" in out.err, "ls", out)
    out = run(f"{bin_}/portusctl", "doctor", "tcp://127.0.0.1")
    trial.expect(b"without stores on other machines" in out.out, "doctor of a store", out)
    out = run(f"{bin_}/portus-run", "--version")
    trial.expect(out.status == 0 and b"portusctl" in out.out, "portus-run --version", out)

    code = site.SAVE
    argv = [f"{bin_}/python", "-c", code, "x.pt", "64"]
    if os.path.exists(program.python()) and run(program.python(), "-c", "import torch").status == 0:
        packages = run(program.python(), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").out.decode().strip()
        with open(glob.glob(f"{home}/v/lib/python3*/site-packages")[0] + "/torch.pth", "w", encoding="ascii") as f:
            f.write(packages + "\n")
        code = ("import torch, sys; torch.manual_seed(3); s = {str(i): torch.randn(1 << 20) for i in range(40)}; "
                "torch.save(s, 'x.pt'); assert torch.equal(torch.load('x.pt')['7'], s['7']); print('saved')")
        argv = [program.python() if os.path.realpath(program.python()) != os.path.realpath(f"{bin_}/python") else argv[0], "-c", code]
    a, b = trial.fresh(), trial.fresh()
    out = run(*argv, cwd=a)
    trial.expect(out.status == 0, "plain", out)
    under = program.start([f"{bin_}/portus-run", *argv], b, {**program.environment(trial.JOB), "PORTUS_SUMMARY": "1", "PORTUS_SAMPLE": "0"})
    of = agents.until(agent, 120)
    under = program.finish(under, 120)
    trial.expect(under.status == 0 and under.out[:5] == out.out[:5] == b"saved", "under portus-run", under)
    trial.expect(of == f"{home}/v/lib/portus/portus-agent", f"the agent is {of}", under)
    trial.expect(summary.captured(under.err) == 1, "not captured", under)
    trial.same(a, b, "torch.save" if "torch" in code else "a save", under)
    agents.until(lambda: not agents.pids(trial.JOB), 20)
finally:
    agents.kill(trial.JOB)
    shutil.rmtree(home)

# --- on an older system ---
old = tree.make("bullseye", ["python3", "python3-venv"])
shutil.copy(first, f"{old}/root")
out = tree.run(old, ["sh", "-c", "python3 -m venv /v && /v/bin/pip -q install --no-index /root/*.whl && ldd --version"], timeout=300)
trial.expect(out.status == 0 and b"2.31" in out.out, "installing on the older system", out)
ckpt = trial.fresh()
out = tree.run(old, ["/v/bin/portus-run", "/v/bin/python3", "-c", site.SAVE, "x.pt", "100"], ckpt)
trial.expect(out.status == 0 and summary.captured(out.err) == 1, "on the older system", out)
trial.expect(site.digest(f"{ckpt}/x.pt") == site.right(100), "on the older system: other bytes", out)
for command in (["/v/bin/portusctl", "doctor", "python3", "/ckpt"], ["/v/bin/portusctl", "status"], ["/v/lib/portus/portus-agent", "--version"]):
    out = tree.run(old, command, ckpt)
    trial.expect(out.status in (0, 1) and b"off  " not in out.out, " ".join(command), out)
