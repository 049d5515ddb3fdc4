# SPDX-License-Identifier: BSD-3-Clause
# Slurm, on this machine alone, with scripts/slurm-task as TaskProlog and TaskEpilog: a job of two tasks, one whose
# tasks are killed when they have saved, one that says PORTUS=off, one that is cancelled.
# Right: captured, by one agent for both tasks; the right bytes when srun returns; no process is left.
# run: script by=check-site root slow timeout=300
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from lib import agents, program, site, trial

for command in ("slurmctld", "slurmd", "srun", "scancel"):
    if not shutil.which(command):
        trial.skip(f"no {command} here (Debian: slurmctld, slurmd, slurm-client)")

HOST = socket.gethostname().split(".")[0]
S = trial.fresh()
os.chmod(S, 0o755)
for name in ("state", "spool", "portus"):
    os.mkdir(f"{S}/{name}")
for name in ("libportus_shim.so", "portus-agent", "portusctl"):
    shutil.copy(f"{program.BUILD}/{name}", f"{S}/portus")
shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/slurm-task"), f"{S}/portus")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


with open(f"{S}/slurm.conf", "w", encoding="ascii") as f:
    f.write(f"""ClusterName=test
SlurmctldHost={HOST}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
StateSaveLocation={S}/state
SlurmdSpoolDir={S}/spool
SlurmctldPidFile={S}/slurmctld.pid
SlurmdPidFile={S}/slurmd.pid
SlurmctldLogFile={S}/slurmctld.log
SlurmdLogFile={S}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
KillWait=20
TaskProlog={S}/portus/slurm-task
TaskEpilog={S}/portus/slurm-task
NodeName={HOST} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes={HOST} Default=YES MaxTime=10 State=UP
""")

ENV = {**program.environment(trial.JOB), "SLURM_CONF": f"{S}/slurm.conf", "PORTUS_SUMMARY": "1", "PORTUS_SAMPLE": "0"}
del ENV["PORTUS_JOB"]
RANK = "import os; os.chdir('rank' + os.environ['SLURM_PROCID']); import sys; sys.argv = ['-c', 'x.pt', '60']\n"
TELL = """
import glob
for p in glob.glob('/proc/[0-9]*/comm'):
    try:
        if open(p).read() == 'portus-agent\\n' and ('PORTUS_JOB=' + os.environ.get('PORTUS_JOB', '?')).encode() in open(p[:-4] + 'environ', 'rb').read().split(b'\\0'):
            print('agent', os.getsid(int(p.split('/')[2])))
    except OSError:
        pass
"""


def job(code, directory, **more):
    for rank in range(2):
        os.makedirs(f"{directory}/rank{rank}", exist_ok=True)
    return program.start(["srun", "-n2", "--immediate=60", "python3", "-c", code], directory, {**ENV, **more})


def ours():
    """Agents that slurm-task named."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if any(w.startswith(b"PORTUS_JOB=slurm-") for w in words) and f"SLURM_CONF={S}/slurm.conf".encode() in words:
            found.append(int(pid))
    return found


def finish(process, what, statuses=(0,)):
    out = program.finish(process, 90)
    trial.expect(not out.late and (statuses is None or out.status in statuses), what, out)
    return out


def whole(directory, what, out):
    for rank in range(2):
        trial.expect(site.digest(f"{directory}/rank{rank}/x.pt") == site.right(60), f"{what}: task {rank}: other bytes", out)
    trial.expect(agents.until(lambda: not ours(), 30), f"{what}: left on the node: {ours()}", out)


daemons = []
try:
    for argv in (["slurmctld", "-D", "-f", ENV["SLURM_CONF"]], ["slurmd", "-D", "-f", ENV["SLURM_CONF"], "-N", HOST]):
        daemons.append(subprocess.Popen(argv, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(1)
    up = agents.until(lambda: b"idle" in subprocess.run(["sinfo", "-h", "-o", "%T"], env=ENV, capture_output=True, check=False).stdout, 60, 0.5)
    if not up:
        with open(f"{S}/slurmctld.log", encoding="utf-8", errors="replace") as f:
            trial.skip(f"Slurm does not run here: {(f.read().strip().splitlines() or ['no log'])[-1]}")

    d = trial.fresh()
    out = finish(job(RANK + site.SAVE + TELL, d), "a job")
    trial.expect(out.err.count(b"captured 1 file") == 2, "a job: not captured by both tasks", out)
    trial.expect(len(set(re.findall(rb"agent (\d+)", out.out))) == 1, "a job: not one agent", out)
    whole(d, "a job", out)

    d = trial.fresh()
    out = finish(job(RANK + site.SAVE + "\nsys.stdout.flush(); import signal; os.kill(os.getpid(), signal.SIGKILL)", d), "killed tasks", None)
    trial.expect(out.status != 0 and out.out.count(b"saved") == 2, "killed tasks", out)
    whole(d, "killed tasks", out)

    d = trial.fresh()
    out = finish(job(RANK + site.SAVE + "\nprint('preload', os.environ.get('LD_PRELOAD', ''))", d, PORTUS="off"), "PORTUS=off")
    trial.expect(b"captured" not in out.err and b"slurm" not in out.out and b"libportus" not in out.out, "PORTUS=off: not heard", out)
    whole(d, "PORTUS=off", out)

    # Cancelled: SIGTERM, which the program takes for a last save.
    d = trial.fresh()
    code = RANK + ("import signal, time\ndef last(*_):\n    exec(save)\n    sys.exit(3)\nsave = " + repr(site.SAVE) +
                   "\nsignal.signal(signal.SIGTERM, last)\nopen('ready', 'w').close()\nwhile True: time.sleep(1)")
    under = job(code, d)
    trial.expect(agents.until(lambda: all(os.path.exists(f"{d}/rank{r}/ready") for r in range(2)), 60), "a job that is cancelled does not begin")
    subprocess.run(["scancel", "--me"], env=ENV, check=True)
    out = finish(under, "a cancelled job", None)
    whole(d, "a cancelled job", out)
finally:
    for daemon in reversed(daemons):
        daemon.send_signal(signal.SIGTERM)
    for daemon in daemons:
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
