# SPDX-License-Identifier: BSD-3-Clause
# Device copies that wait in the ring while the agent's processes die, the program does, or a store pulls them.
# Right: the files of a plain run, or a beginning of one; and the store's version is the file.
# run: script timeout=120
import os
import signal
import subprocess
import time

from lib import agents, program, summary, trial

CTL = os.path.join(program.BUILD, "portusctl")
ARGV = [trial.test_program("cuda_write")]
KILLED = [trial.test_program("cuda_reuse")]


def plain(argv):
    directory = trial.fresh()
    outcome = program.run(argv, directory, program.environment(trial.JOB), 30)
    trial.expect(outcome.status == 0, f"plain: {outcome.how()}", outcome)
    return directory, outcome


def killed(who):
    """Runs a program whose agent's processes are killed as often as they come."""
    before, wanted = plain(KILLED)
    directory = trial.fresh()
    process = program.start(KILLED, directory, program.environment(trial.JOB, "default"))
    kills = 0
    while process.poll() is None:
        for pid in [agents.pair(trial.JOB)[who]] if agents.pair(trial.JOB) else []:
            if pid:
                agents.kill_one(pid)
                kills += 1
        time.sleep(0.02)
    outcome = program.finish(process, 30)
    trial.expect(kills > 0, f"no agent to be killed: {who}", outcome)
    trial.expect(outcome.status == 0 and outcome.out == wanted.out, f"killed {who}: {outcome.how()}", outcome)
    trial.same(before, directory, f"killed {who}", outcome)
    print(f"{kills} kills, {summary.referred(outcome.err)} %")


killed(1)
killed(0)

# The program: what stands is a beginning of what a plain run writes.
before, _ = plain(KILLED)
for delay in (0.3, 0.35, 0.4, 0.5):
    directory = trial.fresh()
    process = program.start(KILLED, directory, program.environment(trial.JOB, "default"))
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    program.finish(process, 30)
    trial.expect(agents.until(lambda: not agents.held(trial.JOB, directory), 15), "still held")
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as f, open(os.path.join(before, name), "rb") as whole:
            data = f.read()
            # b.ckpt is patched at its end: it may be without that.
            trial.expect(name == "b.ckpt" or data == whole.read(len(data)), f"{name} is no beginning")

# A store; an agent that has none must not be there any more.
agents.kill(trial.JOB)
pool, directory = os.path.join(trial.fresh(), "pool"), trial.fresh()
subprocess.run([CTL, "pool", "create", pool, "256M"], check=True, stdout=subprocess.DEVNULL)
before, _ = plain(ARGV)
outcome = program.run(ARGV, directory, program.environment(trial.JOB, "default", PORTUS_STORE=pool), 30)
trial.expect(outcome.status == 0, outcome.how(), outcome)
trial.same(before, directory, "with a store", outcome)
path = os.path.join(directory, "a.ckpt")
wanted = open(path, "rb").read()
env = program.environment(trial.JOB)


def kept():
    listed = subprocess.run([CTL, "versions", "--store", pool], env=env, capture_output=True, check=False)
    return b"/a.ckpt" in listed.stdout


trial.expect(agents.until(kept, 15, 0.2), "the store has no version")
os.unlink(path)
subprocess.run([CTL, "restore", "--store", pool, path], env=env, capture_output=True, check=True)
trial.expect(open(path, "rb").read() == wanted, "the store's version is another one")
trial.end_stores(pool)
