# SPDX-License-Identifier: BSD-3-Clause
"""The rows about what Portus costs a program that saves: memory, processor time.

The drain's processor time is that of the agent; writing back to the disk is the
kernel's and is the same with and without us. What both take from a training loop
is seen by a fixed loop that follows a save at once, against the same loop alone.
"""
import contextlib
import time

import machine
import programs


def memory(options, progress):
    """Ring memory over the state's size at its peak, and 5 s after the drain."""
    found = {"peak": [], "after": [], "processor_per_gib": []}
    for number in range(options.rounds):
        progress(f"memory: round {number + 1} of {options.rounds}")
        with programs.Saver("path", options.size, options.dir, True, {}) as saver:
            size = saver.hello["bytes"]
            with programs.Peak(saver.job) as peak:
                for i in range(options.pauses + 1):
                    machine.settle()
                    before = programs.agent_seconds(saver.job)
                    saver.ask("save", f"step-{i}")
                    programs.wait_whole(saver.path(f"step-{i}"))
                    if i > 0: # the first one also grows the ring
                        took = programs.agent_seconds(saver.job) - before
                        found["processor_per_gib"].append(took / size * programs.GIB)
                        saver.remove(f"step-{i - 1}")
            time.sleep(5)
            found["peak"].append(peak.bytes / size)
            found["after"].append(programs.ring_bytes(saver.job) / size)
            saver.end()
    return found


def beside(options, progress):
    """Seconds of a training loop that a save takes after it has returned, per GiB."""
    found = {"plain": {"lost": [], "loop": []}, "shim": {"lost": [], "loop": []}}
    for number in range(options.rounds):
        progress(f"beside: round {number + 1} of {options.rounds}")
        with contextlib.ExitStack() as stack:
            savers = {}
            for key in found:
                saver = programs.Saver("path", options.size, options.dir, key == "shim", {})
                savers[key] = stack.enter_context(saver)
                saver.ask("save", "step-0")
                saver.ask("calibrate", str(max(1.0, 2 * options.size)))
            for i in range(1, options.pauses + 1):
                for key, saver in savers.items():
                    programs.wait_whole(saver.path(f"step-{i - 1}"))
                    saver.remove(f"step-{i - 1}")
                    machine.settle()
                    alone = min(saver.ask("loop")["seconds"] for _ in range(2))
                    beside_drain = saver.ask("save-loop", f"step-{i}")["loop"]
                    found[key]["loop"].append(alone)
                    found[key]["lost"].append((beside_drain - alone) / saver.hello["bytes"] * programs.GIB)
            for saver in savers.values():
                saver.end()
    return found
