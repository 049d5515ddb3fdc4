# SPDX-License-Identifier: BSD-3-Clause
# Both ends of an RDMA link in one guest, by soft-RoCE on a dummy device: memory is pulled into a pool on devdax,
# fsdax and in a file, pushed back, and compared, beside ib_read_bw, ib_write_bw and rping; single READs, of which none may wait
# for another. A program, its agent and portusd in one guest: how long 1 MiB takes until it is committed, beside ib_read_lat. Then what
# goes wrong: a wrong secret, a wrong key, memory that was withdrawn, an end that is stopped, killed, cut off, lossy.
# run: script by=check-vm timeout=1800
import json
import os
import re
import statistics
import sys

from lib import guest, pair, program, trial

guest.needed(rdma=True)


def run(directory, do, seconds):
    """The lines of one boot."""
    nvdimm = f"{directory}/nvdimm"
    with open(nvdimm, "wb") as f:
        f.truncate(256 << 20)
    made = pair.key(directory, "alice")
    disk = pair.disk(f"{directory}/disk") if do == "commit" else None
    g = guest.Guest(directory, f"{guest.HERE}/rdma.sh", f"portus.build={program.BUILD} portus.key={made} portus.do={do}",
                    nvdimm, disk=disk, size=256, again=True)
    lines = g.until("exit ", seconds)
    g.cut()
    if lines is None or lines[-1] != "exit 0":
        sys.exit(g.tail())
    print("\n".join(lines), flush=True)
    if any(line.startswith("device rxe0 active") for line in lines):
        return lines
    trial.skip("no soft-RoCE in the guest: " + " ".join(lines[:3]))
    return lines


def expect(condition, what, lines):
    if not condition:
        sys.exit(f"{what}:\n" + "\n".join(lines))


def speeds_of(lines):
    """Of ours and of others' tools: MiB a second, of each run."""
    speeds = {}
    for line in lines:
        words = line.split()
        if words[0] == "yardstick" and words[1].startswith("ib_"):
            speeds.setdefault(words[1], []).append(float(words[-1]))
        elif words[:2] in (["store", "pull"], ["store", "push"]):
            speeds.setdefault(words[1], []).append(float(words[2]))
    return speeds


def whole():
    lines = run(trial.fresh(), "one", 400)
    for kind, memory in (("devdax", "pool"), ("fsdax", "buffer"), ("file", "pool")):
        part = lines[lines.index(f"kind {kind}"):]
        part = part[:part.index("store-ended") + 1]
        for wanted in (f"store registered {memory}", "store equal 1", "agent same 1", "store end the other end has hung up"):
            expect(wanted in part, f"{kind}: not '{wanted}'", part)
    expect("yardstick rping works" in lines, "rping", lines)
    speeds = speeds_of(lines)
    expect(len(speeds.get("ib_read_bw", ())) == len(speeds.get("ib_write_bw", ())) == 2, "perftest", lines)
    for ours, theirs in (("pull", "ib_read_bw"), ("push", "ib_write_bw")):
        share = max(speeds[ours]) / max(speeds[theirs])
        print(f"{ours}: {max(speeds[ours]):.0f} MiB/s, {theirs} {max(speeds[theirs]):.0f} MiB/s: {share:.2f} of it", flush=True)
        expect(share > 0.5, f"{ours} is much slower than {theirs}", lines)
    # pull waits 5 s for what has not gone out.
    for line in lines:
        if line.startswith("store single"):
            print(line, flush=True)
            expect(float(line.split()[2]) < 2500, "a READ goes out when something else happens", lines)


def commit():
    """No bound but that of the store's being there: what is told is beside what a READ of the same size takes."""
    lines = run(trial.fresh(), "commit", 400)
    kept = [re.match(r"kept \S+ 1 MiB (\d+) ms after its end", line) for line in lines]
    kept = [int(m[1]) for m in kept if m][1:]  # the first one finds the store
    expect(len(kept) == 16, "not all are kept", lines)
    told, began = {}, {}
    for event in (json.loads(line[6:].rstrip(",")) for line in lines if line.startswith("trace {")):
        if event["ph"] == "b":
            began[event["id"]] = event["ts"]
        else:
            told.setdefault(event["name"], []).append((event["ts"] - began[event["id"]]) / 1e3)
    reads = {}
    for line in lines:
        words = line.split()
        if words[:2] == ["yardstick", "ib_read_lat"]:
            reads.setdefault(int(words[2]), []).append(float(words[3]) / 1e3)
    expect(set(reads) == {8, 1 << 20}, "no ib_read_lat", lines)
    print(f"1 MiB: {statistics.median(kept):.0f} ms (at most {max(kept)}) from close until the node hears that it is committed; "
          f"{statistics.median(told['keep'][1:]):.0f} of these since it was drained, {statistics.median(told['commit'][1:]):.0f} since portusd was told of "
          f"it; ib_read_lat of 1 MiB {', '.join(f'{ms:.1f}' for ms in reads[1 << 20])} ms, of 8 bytes {reads[8][0]:.2f} ms", flush=True)


# What each end says, within a minute from the beginning on, of what goes wrong; nothing that came into the agent's memory after it had
# broken off counts as pulled.
FAULTS = {
    "wrong-secret": ("agent broken -111 it refuses", "store broken -110"),
    "wrong-key": ("store broken",),
    "withdrawn": ("store broken",),
    "broken-off": ("agent broke off", "store broken"),
    "stopped": ("agent broke off", "store broken"),
    "agent-killed": ("store broken",),
    "store-killed": ("agent broken",),
    "memlock": ("RLIMIT_MEMLOCK is 8192 KiB",),
    "none": ("store equal 1", "agent same 1"),
}


def faulty():
    lines = run(trial.fresh(), "faults", 700)
    starts = [i for i, line in enumerate(lines) if line.startswith("fault ")] + [len(lines)]
    for begin, end in zip(starts, starts[1:]):
        part, name = lines[begin:end], lines[begin].split()[1]
        for wanted in FAULTS.get(name, ()):
            expect(any(wanted in line for line in part), f"{name}: not '{wanted}'", part)
        for line in part:
            words = line.split()
            if words[1:2] == ["broken"] and len(words) > 3 and words[3].replace(".", "").isdigit():
                expect(float(words[3]) < 60, f"{name}: {words[3]} s", part)
            if "of it alien" in line:
                expect(line.endswith("alien 0"), f"{name}: {line}", part)
    expect({lines[i].split()[1] for i in starts[:-1]} >= set(FAULTS), "not all faults were tried", lines)


for part in os.environ.get("PARTS", "whole commit faulty").split():
    {"whole": whole, "commit": commit, "faulty": faulty}[part]()
