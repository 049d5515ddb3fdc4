# SPDX-License-Identifier: BSD-3-Clause
# portusd as a service manager starts it: a socket that listens, a socket for news, a watchdog, the
# journal; and the units that come with it.
# Right: READY when it serves, STATUS, WATCHDOG while it goes on and not while it does not, RELOADING and
# READY again, STOPPING before its end; lines for the journal begin with their priority; what a descriptor of
# another kind is said to be is not believed.
# run: script root timeout=90
import os
import shutil
import signal
import socket
import subprocess
import time

from lib import agents, program, stores, trial

top = trial.fresh()
os.chmod(top, 0o755)
state, pool = os.path.join(top, "state"), os.path.join(top, "state/pool")
os.mkdir(state, 0o700)
os.chown(state, stores.OWNER, stores.OWNER)
subprocess.run([stores.CTL, "pool", "create", pool, "64M"], check=True, stdout=subprocess.DEVNULL, **stores.user(stores.OWNER))
config = os.path.join(top, "conf")
with open(config, "w", encoding="ascii") as f:
    f.write("default objects 10\n")


def start(listener, **more):
    """As a service manager does: the socket is descriptor 3."""
    read, write = os.pipe()
    status = os.fstat(write)
    env = program.environment(trial.JOB, PORTUS_LOG="info", NOTIFY_SOCKET=notify.getsockname(), WATCHDOG_USEC="900000",
                              JOURNAL_STREAM=f"{status.st_dev}:{status.st_ino}", LISTEN_FDS="1", **more)
    saved = os.dup(3) if os.path.exists("/proc/self/fd/3") and listener.fileno() != 3 else None
    os.dup2(listener.fileno(), 3)
    process = subprocess.Popen(["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$0" "$@"', stores.DAEMON, "--config", config, pool],
                               env=env, stderr=write, pass_fds=(3,), **stores.user(stores.OWNER))
    if saved is not None:
        os.dup2(saved, 3)
        os.close(saved)
    os.close(write)
    return process, read


def news(seconds=5):
    notify.settimeout(seconds)
    try:
        return notify.recv(4096).decode()
    except TimeoutError:
        return ""


def hear(wanted, seconds=10):
    end = time.monotonic() + seconds
    heard = []
    while time.monotonic() < end:
        heard.append(news(1))
        if wanted in heard[-1]:
            return heard[-1]
    trial.fail(f"{wanted} is not said, but {heard}")


notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(os.path.join(top, "notify"))
os.chmod(os.path.join(top, "notify"), 0o777)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(os.path.join(top, "s"))
os.chmod(os.path.join(top, "s"), 0o777)
listener.listen(16)
name = "unix:" + os.path.join(top, "s")


def ls(uid):
    return subprocess.run([stores.CTL, "ls", "--store", name], capture_output=True, text=True, timeout=60, check=False,
                          **stores.user(uid))


# Who connects before it is there waits; then it is served.
early = subprocess.Popen([stores.CTL, "ls", "--store", name], **stores.user(60101))
process, said = start(listener)
try:
    hear("READY=1")
    trial.expect(early.wait(10) == 0, "the first one is not served")
    trial.expect("free" in hear("STATUS="), "no status")
    for _ in range(3):
        hear("WATCHDOG=1", 2)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    while news(0.1):
        pass
    trial.expect("WATCHDOG" not in news(1.5), "it is stopped, and says that it goes on")
    process.send_signal(signal.SIGCONT)
    hear("WATCHDOG=1")
    process.send_signal(signal.SIGHUP)
    trial.expect("MONOTONIC_USEC=" in hear("RELOADING=1"), "no time")
    hear("READY=1")
    trial.expect(ls(60101).returncode == 0, "not served")
    process.send_signal(signal.SIGTERM)
    hear("STOPPING=1")
    trial.expect(process.wait(10) == 0, "its end")
finally:
    process.kill()
lines = os.read(said, 1 << 16).decode().splitlines()
trial.expect(lines and all(line.startswith(("<3>portusd: ", "<4>portusd: ", "<6>portusd: ")) for line in lines), f"{lines}")
trial.expect(os.path.exists(os.path.join(top, "s")), "it has removed a socket that is not its own")

# It is started again by the same socket; one of another kind is refused.
process, said = start(listener)
hear("READY=1")
trial.expect(ls(0).returncode == 0, "not served by the second one")
process.kill()
process.wait()
for wrong in (socket.socket(socket.AF_INET, socket.SOCK_STREAM), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
              socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0]):
    process, said = start(wrong)
    trial.expect(process.wait(10) == 1 and b"no unix socket that listens" in os.read(said, 4096), f"{wrong}")

# The units.
if not shutil.which("systemd-analyze"):
    print("no systemd-analyze: the units are not looked at")
else:
    units = os.path.join(top, "units")
    os.mkdir(units)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/systemd")
    with open(os.path.join(here, "portusd.service.in"), encoding="ascii") as f:
        text = f.read().replace("@LIBDIR@", program.BUILD)
    with open(os.path.join(units, "portusd.service"), "w", encoding="ascii") as f:
        f.write(text)
    shutil.copy(os.path.join(here, "portusd.socket"), units)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", os.path.join(units, "portusd.service"),
                           os.path.join(units, "portusd.socket")], capture_output=True, text=True, timeout=60, check=False)
    trial.expect(done.returncode == 0 and "portusd" not in done.stderr, f"verify: {done.stderr}")
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=15",
                           os.path.join(units, "portusd.service")], capture_output=True, text=True, timeout=60, check=False)
    trial.expect(done.returncode == 0, f"security: {done.stdout[-2000:]}{done.stderr}")
    print(done.stdout.strip().splitlines()[-1])
