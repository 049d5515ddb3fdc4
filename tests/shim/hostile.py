# SPDX-License-Identifier: BSD-3-Clause
# Surroundings that lack something: system calls, /proc, HOME, a writable directory, an agent.
# Right: the program's output, end and files are as ever, and it does not wait long.
# run: script timeout=400
import os
import shutil
import stat
import subprocess
import tempfile

from lib import agents, program, summary, trial

SAVE, DENY = trial.test_program("write"), trial.test_program("deny")
ENOSYS, EPERM, EACCES, EOPNOTSUPP, EMFILE, EINVAL = 38, 1, 13, 95, 24, 22

for error, calls in ((EPERM, "memfd_create"), (ENOSYS, "memfd_create"), (EPERM, "sendmsg"), (EACCES, "connect"),
                     (EMFILE, "socket"), (EPERM, "pidfd_open"), (ENOSYS, "pidfd_open close_range clone3 pidfd_send_signal"),
                     (EOPNOTSUPP, "fallocate"), (ENOSYS, "statx"), (EINVAL, "leases"), (EPERM, "eventfd2"),
                     (EINVAL, "madvise"), (EPERM, "setsid prctl"), (ENOSYS, "pwritev2")):
    out = trial.compared([DENY, str(error), *calls.split(), "--", SAVE], f"{calls} gives {error}", timeout=30)
    if out.status == 77:
        print("no seccomp here")
        break
    trial.expect(out.seconds < 15, f"{calls} gives {error}: took {out.seconds:.0f} s", out)
    agents.kill(trial.JOB)

empty = {"HOME": "", "XDG_RUNTIME_DIR": "", "PATH": "", "TMPDIR": "/nowhere"}
trial.compared([SAVE], "empty environment", captures=1, **empty)
trial.compared(["env", "-u", "HOME", "-u", "XDG_RUNTIME_DIR", "-u", "PATH", SAVE], "no HOME", captures=1)

with tempfile.TemporaryDirectory(dir=trial.TOP) as lib:
    shim = shutil.copy(program.SHIM, lib)
    agent = os.path.join(lib, "portus-agent")
    for what, text in (("an agent that fails", "#!/bin/sh\nexit 1\n"), ("an agent that hangs", "#!/bin/sh\nsleep 8\n"),
                       ("an agent that is no program", "what?"), ("an agent that talks", "#!/bin/sh\necho hello\necho hello >&2\n")):
        with open(agent, "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(agent, stat.S_IRWXU)
        out = trial.compared([SAVE], what, timeout=30, LD_PRELOAD=shim)
        trial.expect(out.seconds < 12, f"{what}: took {out.seconds:.0f} s", out)
        trial.expect(summary.without(out.err) == b"", f"{what}: said something of its own", out)
    os.unlink(agent)
    trial.compared([SAVE], "no agent", LD_PRELOAD=shim)

closed = ["sh", "-c", 'exec "$0" <&- 2>&-', SAVE]
trial.compared(closed, "closed standard streams")
trial.compared(["sh", "-c", 'ulimit -n 20; ulimit -c 0; ulimit -l 64; exec "$0"', SAVE], "small limits")
trial.compared(["sh", "-c", 'ulimit -v 400000; exec "$0"', SAVE], "little address space")
trial.compared(["nice", "-n", "19", SAVE], "nice", captures=1)

readonly = trial.fresh()
os.chmod(readonly, 0o555)
trial.compared(["sh", "-c", f'd=$PWD; cd {readonly}; umask 077; exec sh -c \'cd "$1"; exec "$0"\' "$0" "$d"', SAVE],
               "started in a read-only directory", captures=1)

if os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0:
    for what, setup in (("no /proc", "mount -t tmpfs none /proc"), ("another /proc", "mount -t tmpfs none /proc/self/fd"),
                        ("no /dev", "mount -t tmpfs none /dev"), ("no /tmp, no /dev/shm", "mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o ro none /dev/shm"),
                        ("read-only file systems elsewhere", "mount -o bind,ro /usr /usr")):
        if "/tmp" in setup and trial.TOP.startswith("/tmp"):
            continue
        argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", f'{setup} 2>/dev/null; exec "$0"', SAVE]
        trial.compared(argv, what, timeout=40)
        agents.kill(trial.JOB)
    trial.compared(["unshare", "-n", SAVE], "a network namespace of its own")
    trial.compared(["unshare", "-p", "-f", "--mount-proc", SAVE], "a process namespace of its own", timeout=40)
