# SPDX-License-Identifier: BSD-3-Clause
"""The rows about device memory, on the emulated GPU of tests/emu: of its times only those count that
are the kernel's (promise.c); the others are numbers of calls and bytes.

Plainly each byte is copied twice by a CPU: out of the driver's pinned buffer into the program's memory,
and by write(2). Under the shim: what was not referred to in the ring when it was written, and at the
ends of each tensor two pages, at most. Apart from that: the pages that the kernel copies when they are
settled, after the save, by a thread of the shim's, where much is left, or in it, where the ring has no room.
"""
import json
import os
import re
import shutil
import subprocess
import tempfile

import programs
from lib import kinds, program, summary

HERE = os.path.dirname(os.path.abspath(__file__))
PROMISE = os.path.join(program.BUILD, "tests/bench/promise")
KINDS = {"path": "`torch.save` by path", "safetensors": "safetensors `save_file`", "dcp_async": "DCP `async_save`"}
FIRST, SAVES = 2, 4  # while the ring grows; those that count
PAGE = 4096


def _once(kind, gib, directory, mode, saves):
    """(what each save counted, bytes captured, bytes referred to) of one process."""
    top = tempfile.mkdtemp(dir=directory)
    env = programs.environment(f"bench-{os.getpid()}-{next(programs._serial)}", program.SHIM if mode else None)
    if mode:
        env.update(PORTUS_SUMMARY="1", PORTUS_SAMPLE="0")
    python = program.cuda_python()
    env = program.emulated(env, kinds.torch_cuda(python).partition(".")[0])
    argv = [python, os.path.join(HERE, "device_save.py"), kind, str(gib), str(saves)]
    try:
        done = subprocess.run(argv, cwd=top, env=env, capture_output=True, check=False)
    finally:
        shutil.rmtree(top)
    if done.returncode:
        raise programs.Skip(done.stderr.decode(errors="replace").strip().splitlines()[-1])
    captured = re.search(rb"captured \d+ files?, ([\d.]+) GiB", done.stderr)
    total = float(captured.group(1)) * programs.GIB if captured else 0
    return [json.loads(line) for line in done.stdout.splitlines()], total, total * summary.referred(done.stderr) / 100


def device(options, progress):
    """Of each kind, plainly and with the shim, of a save when the ring has grown: per GiB, per byte."""
    if not os.access(program.cuda_python(), os.X_OK) or not kinds.torch_cuda(program.cuda_python()):
        raise programs.Skip("no PyTorch for CUDA")
    found = {}
    for kind in KINDS:
        of = found[kind] = {}
        for key in ("plain", "shim"):
            progress(f"device: {kind}, {key}")
            saves, captured, referred = _once(kind, options.size, options.dir, key == "shim", FIRST + SAVES)
            size, later = saves[0]["bytes"], saves[FIRST:]
            of[key] = {name: sum(s[name] for s in later) / len(later) / size * programs.GIB
                       for name in ("calls", "copies", "pageable", "pinned")}
            if key == "plain":
                of[key]["copied_per_byte"] = of[key]["pageable"] / programs.GIB + 1
                continue
            # A process that makes only these, to leave them out.
            _, first, first_referred = _once(kind, options.size, options.dir, True, FIRST)
            written = (captured - referred) - (first - first_referred)
            of[key]["captured"] = (captured - first) / size / len(later)
            of[key]["copied_per_byte"] = (written / len(later) + 2 * PAGE * later[0]["tensors"]) / size
            of[key]["settled_per_byte"] = sum(s["settled"] for s in later) / len(later) / size
    return found


def promise(options, progress):
    """What the kernel takes for each GiB: lists of seconds."""
    progress("promise")
    done = subprocess.run([PROMISE, str(int(options.size * 1024)), str(options.processes)], check=True, capture_output=True)
    return json.loads(done.stdout)


ROWS = {"device": device, "promise": promise}


def tables(results):
    """[(head, rows)] of what there is."""
    made = []
    if "device" in results:
        rows = []
        for kind, title in KINDS.items():
            for key in ("plain", "shim"):
                of = results["device"].get(kind, {}).get(key)
                if of is not None:
                    rows.append([title if key == "plain" else "the same with Portus", f"{of['calls']:.0f}", f"{of['copies']:.0f}",
                                 f"{of['pageable'] / programs.GIB:.2f}", f"{of['pinned'] / programs.GIB:.2f}",
                                 f"{of['copied_per_byte']:.3f}", f"{of.get('settled_per_byte', 0):.3f}"])
        made.append((["a save from an emulated GPU, for each GiB", "calls of the driver", "copies", "GiB into pageable",
                      "GiB into pinned memory", "bytes that a CPU copied, per byte", "and after it"], rows))
    if "promise" in results:
        rows = [[title, f"{results['promise'][name]['median'] * 1e3:.1f}"] for name, title in
                (("map", "mapping the ring over memory that is there"), ("scan", "asking which pages are unchanged"),
                 ("settle", "settling (not in a save: after it, if the memory lives on)"), ("copy", "one memcpy, to compare"))]
        made.append((["promised memory, tensors of 4 MiB, for each GiB", "ms"], rows))
    return made
