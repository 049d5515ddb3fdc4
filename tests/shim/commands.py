# SPDX-License-Identifier: BSD-3-Clause
# Each command of portusctl, and each of its options, is in the manual page and in the completion.
# Right: what `portusctl help` names is there, and nothing that it does not name.
# run: script
import os
import re
import subprocess

from lib import program, trial

CTL = os.path.join(program.BUILD, "portusctl")
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def out(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    trial.expect(done.returncode == 0, f"{argv}: {done.returncode}: {done.stderr}")
    return done.stdout


def completed(*words):
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _portusctl; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return set(out("bash", "-c", script, "bash", os.path.join(TOP, "scripts/portusctl.bash"), "portusctl", *words).split())


with open(os.path.join(TOP, "man/portusctl.1.scd"), encoding="utf-8") as f:
    synopsis = f.read().split("# DESCRIPTION")[0].split("# SYNOPSIS")[1].replace("*", "")
names = set(re.findall(r"^  (\w+) ", out(CTL, "help"), re.M))
trial.expect(len(names) > 15 and {"scrub", "diff", "export", "import"} <= names, f"help: {names}")
trial.expect(set(re.findall(r"^portusctl (\w+)", synopsis, re.M)) == names, "the manual page has other commands")
trial.expect(completed("") - {"--help", "--version"} == names, "the completion has other commands")
for name in names - {"help", "pool"}:
    usage = out(CTL, "help", name).splitlines()[0]
    options = set(re.findall(r"--[\w-]+", usage))
    lines = "".join(line for line in synopsis.splitlines() if line.startswith(f"portusctl {name} ")
                    or line.startswith(f"portusctl {name}++"))
    trial.expect(set(re.findall(r"--[\w-]+", lines)) == options, f"{name}: the manual page has other options: {lines}")
    found = completed(name, "--") - {"--help", "--long"}
    trial.expect(found == options, f"{name}: completed: {found}, not {options}")
for part in out(CTL, "help", "pool").split("usage: portusctl pool ")[1].split("\n")[0].split(" | "):
    name, options = part.split()[0], set(re.findall(r"--[\w-]+", part))
    trial.expect(name in completed("pool", ""), f"pool {name} is not completed")
    trial.expect(completed("pool", name, "--") - {"--help"} == options, f"pool {name}: other options")
    line = next((line for line in synopsis.splitlines() if line.startswith(f"portusctl pool {name} ")), "")
    trial.expect(set(re.findall(r"--[\w-]+", line)) == options, f"pool {name}: the manual page has {line!r}")
