# SPDX-License-Identifier: BSD-3-Clause
#
# demo.py -- runs examples/train.py plainly and under the shim, and compares
#
# Called by scripts/demo, which installs and builds. Both ways the program runs
# twice: from the start, then resumed from its newest checkpoint. The four runs
# are interleaved, and each begins with an idle disk. Says whether all files are
# equal (exit status 1 if not), and what a save cost either way.
import argparse
import hashlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("B", "build"))
SHIM = os.path.join(BUILD, "libportus_shim.so")
CTL = os.path.join(BUILD, "portusctl")
TRAIN = os.path.join(ROOT, "examples", "train.py")

CAPTURED_ON = {"ext4", "xfs", "btrfs", "f2fs", "overlay"}
GIB = 1 << 30

# Steps of the run from the start, of the resumed one, and from save to save.
# The last save is followed by a step: what happens behind it can be watched.
FIRST, RESUMED, EVERY = 12, 28, 3

SAVED = re.compile(r"saved (\S+) in ([0-9.]+) s")
REMOVED = re.compile(r"removed (\S+) in ([0-9.]+) s")
STEP = re.compile(r"step (\d+):")


class Failure(Exception):
    """What stops the demo, in one sentence."""


class Progress:
    """One line that is written over, on a terminal only."""

    def __init__(self):
        self.on = sys.stderr.isatty()

    def show(self, text):
        if self.on:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\033[K" + text[:width])
            sys.stderr.flush()

    def clear(self):
        self.show("")
        if self.on:
            sys.stderr.write("\r")


progress = Progress()


# ---- where -----------------------------------------------------------------


def file_system(path):
    """The type of the file system at path."""
    path = os.path.realpath(path)
    best, kind = "", "?"
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, _, right = line.partition(" - ")
            point = left.split()[4].encode().decode("unicode_escape")
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, right.split()[0]
    return kind


def choose_place(need):
    """The folder to make ours in, and its file system's type."""
    told = os.environ.get("PORTUS_DEMO_DIR")
    if told:
        places = [told]
    else:
        places = [BUILD, "/var/tmp", os.environ.get("HOME", "")]
    refused = []
    for place in places:
        if not place or not os.path.isdir(place):
            refused.append(f"{place} is not a folder" if place else "no HOME")
        elif not os.access(place, os.W_OK | os.X_OK):
            refused.append(f"{place} is not writable")
        elif not told and file_system(place) not in CAPTURED_ON:
            refused.append(f"{place} is {file_system(place)}")
        elif shutil.disk_usage(place).free < need:
            free = shutil.disk_usage(place).free / GIB
            refused.append(f"{place} has {free:.1f} GiB free of {need / GIB:.1f}")
        else:
            return os.path.abspath(place), file_system(place)
    raise Failure(
        f"no place for the files ({'; '.join(refused)}): "
        "name a folder on a local disk in PORTUS_DEMO_DIR, or try --small"
    )


def memory_available():
    """Bytes that a program can have, as far as this container lets it."""
    with open("/proc/meminfo") as f:
        info = dict(line.split(":", 1) for line in f)
    available = int(info["MemAvailable"].split()[0]) * 1024
    try:
        with open("/sys/fs/cgroup/memory.max") as f:
            limit = f.read().strip()
        with open("/sys/fs/cgroup/memory.stat") as f:
            used = dict(line.split() for line in f)
        if limit != "max":
            held = sum(int(used.get(name, 0)) for name in ("anon", "shmem", "unevictable", "kernel"))
            available = min(available, int(limit) - held)
    except (OSError, ValueError):
        pass
    return available


# ---- one run of the program --------------------------------------------------


class Run:
    """The output and the times of one way of running: plain, or with the shim."""

    def __init__(self, name, folder, shimmed):
        self.name = name
        self.folder = folder
        self.shimmed = shimmed
        self.saves = []  # (path, seconds, whether the first of its process)
        self.removes = []  # seconds
        self.words = []  # what it printed, without times
        self.notes = []  # what the shim said
        self.seconds = 0.0
        self.drained = self.synced = None
        self.child = None
        os.mkdir(folder)
        os.mkdir(os.path.join(folder, "ckpt"))

    def go(self, steps, more):
        os.sync()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PORTUS", "LD_PRELOAD"))}
        if self.shimmed:
            env["LD_PRELOAD"] = SHIM
        command = [sys.executable, TRAIN, "--steps", str(steps), "--save-every", str(EVERY), *more]
        last = steps // EVERY * EVERY
        what = "resumed" if "--resume" in more else "first run"
        first = True
        watcher = None
        errors = tempfile.TemporaryFile("w+", dir=self.folder)
        began = time.perf_counter()
        self.child = subprocess.Popen(
            command,
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        progress.show(f"{self.name}, {what}: starting")
        for line in self.child.stdout:
            now = time.perf_counter()
            self.words.append(re.sub(r" in [0-9.]+ s$", "", line))
            if step := STEP.match(line):
                progress.show(f"{self.name}, {what}: step {step[1]} of {steps}")
            elif removed := REMOVED.match(line):
                self.removes.append(float(removed[2]))
            elif saved := SAVED.match(line):
                seconds = float(saved[2])
                self.saves.append((saved[1], seconds, first))
                first = False
                if f"step-{last}." in saved[1] and steps == RESUMED:
                    path = os.path.join(self.folder, saved[1])
                    watcher = threading.Thread(
                        target=self.watch, args=(path, now - seconds), daemon=True
                    )
                    watcher.start()
        status = self.child.wait()
        self.seconds += time.perf_counter() - began
        self.child = None
        if watcher:
            watcher.join()
        errors.seek(0)
        said = errors.read()
        errors.close()
        if status != 0:
            progress.clear()
            sys.stderr.write(said[-4000:])
            raise Failure(f"{self.name}: {TRAIN} ended with status {status}, see above")
        self.notes += [line for line in said.splitlines() if line.startswith("portus")]

    def watch(self, path, began):
        """When has a reader without the shim all the bytes, and when has the disk?"""
        fd = os.open(path, os.O_RDONLY)  # waits while the file is not whole
        self.drained = time.perf_counter() - began
        if self.shimmed:
            done = subprocess.run([CTL, "wait", path], capture_output=True, text=True)
            if done.returncode != 0:
                self.notes += done.stderr.splitlines()
        os.fsync(fd)
        os.close(fd)
        self.synced = time.perf_counter() - began

    def stop(self):
        child = self.child
        if child and child.poll() is None:
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def files(self):
        found = []
        for folder, _, names in os.walk(self.folder):
            found += [os.path.relpath(os.path.join(folder, name), self.folder) for name in names]
        return sorted(found)

    def median(self, replaced=False, first=False):
        chosen = [
            seconds
            for path, seconds, was_first in self.saves
            if was_first == first and (first or path.endswith("last.pt") == replaced)
        ]
        return statistics.median(chosen)


# ---- what to compare with ------------------------------------------------------


def memcpy_seconds(path):
    """One thread copies the tensors of a checkpoint, into memory it has used before."""
    import torch

    torch.set_num_threads(1)
    checkpoint = torch.load(path, mmap=False)
    tensors = list(checkpoint["model"].values())
    for state in checkpoint["optimizer"]["state"].values():
        tensors += [t for t in state.values() if isinstance(t, torch.Tensor)]
    unique = {t.data_ptr(): t for t in tensors}
    tensors = list(unique.values())
    copies = [torch.zeros_like(t) for t in tensors]
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for copy, tensor in zip(copies, tensors):
            copy.copy_(tensor)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def digest(path):
    sha = hashlib.sha256()
    with open(path, "rb", buffering=0) as f:
        while piece := f.read(1 << 20):
            sha.update(piece)
    return sha.hexdigest()


def compare(plain, portus):
    """The names of all files, and of those that differ."""
    names = sorted(set(plain.files()) | set(portus.files()))
    differ = []
    for name in names:
        progress.show(f"comparing {name}")
        paths = [os.path.join(run.folder, name) for run in (plain, portus)]
        if not all(map(os.path.exists, paths)) or digest(paths[0]) != digest(paths[1]):
            differ.append(name)
    return names, differ


def table(plain, portus, size, kind, memcpy):
    def row(what, a, b, ratio=True):
        times = f"{a / b:6.1f} x" if ratio and b else ""
        print(f"  {what:36}{a:9.2f} s{b:9.2f} s{times}".rstrip())

    total = [sum(s for _, s, _ in run.saves) + sum(run.removes) for run in (plain, portus)]
    path = [run.median() for run in (plain, portus)]
    print(f"{len(plain.saves)} saves of {size / 1e6:.0f} MB each, in two runs of the program, on {kind}")
    print(f"  {'the program waits (medians)':36}{'plain':>11}{'Portus':>11}")
    row("torch.save", *path)
    row("torch.save, os.replace", *(run.median(replaced=True) for run in (plain, portus)))
    row("torch.save, first of the process", *(run.median(first=True) for run in (plain, portus)))
    row("os.remove of the oldest", *(statistics.median(run.removes) for run in (plain, portus)))
    row("all of these together", *total)
    print("  the last save, from its begin")
    row("until drained: others can read it", plain.drained, portus.drained, False)
    row("until synced: it is on the disk", plain.synced, portus.synced, False)
    print("  the program, from start to end")
    row("both runs together", plain.seconds, portus.seconds)
    print(f"  {'torch.save, in memcpys of ' + format(memcpy, '.2f') + ' s':36}", end="")
    print(f"{path[0] / memcpy:9.2f} x{path[1] / memcpy:9.2f} x   (one thread)")
    print("  os.replace and os.remove wait until what was saved before them is in its file, so that")
    print("  a crash leaves what it would leave without Portus; the disk itself is no faster")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()

    for needed in (SHIM, CTL):
        if not os.path.exists(needed):
            raise Failure(f"{needed} is missing: run make")
    # Seven files at most: two folders of three, and one being written.
    place, kind = choose_place(int((0.8 if args.small else 7.5) * GIB))
    need = (2 if args.small else 5) * GIB
    if memory_available() < need:
        raise Failure(
            f"needs {need // GIB} GiB of memory, {memory_available() / GIB:.1f} are available"
            + ("" if args.small else ": try --small")
        )
    if kind not in CAPTURED_ON:
        print(f"demo: {place} is {kind}: files are written as usual there, only the CRC is faster")

    folder = tempfile.mkdtemp(prefix="portus-demo-", dir=place)
    plain = portus = None
    more = ["--small"] if args.small else []
    try:
        plain = Run("plain", os.path.join(folder, "plain"), False)
        portus = Run("Portus", os.path.join(folder, "portus"), True)
        for steps, extra in ((FIRST, more), (RESUMED, [*more, "--resume"])):
            for run in (plain, portus):
                run.go(steps, extra)
        last = os.path.join(plain.folder, "ckpt", "last.pt")
        size = os.path.getsize(last)
        names, differ = compare(plain, portus)
        progress.show("timing memcpy")
        memcpy = memcpy_seconds(last)
        progress.clear()
    finally:
        # Nothing stops this but SIGKILL.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        progress.clear()
        for run in (plain, portus):
            if run:
                run.stop()
        if args.keep:
            print(f"demo: the files are in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)

    for note in dict.fromkeys(portus.notes):
        print(note)
    table(plain, portus, size, kind, memcpy)
    for name in differ:
        print(f"differs: {name}")
    if plain.words != portus.words:
        print("the program's own output differs")
    equal = not differ and plain.words == portus.words
    print(f"all {len(names)} files equal: {'yes' if not differ else 'NO'}")
    return 0 if equal else 1


def end(number, frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, end)
    try:
        sys.exit(main())
    except Failure as failure:
        progress.clear()
        print(f"demo: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        progress.clear()
        print("demo: interrupted", file=sys.stderr)
        sys.exit(130)
