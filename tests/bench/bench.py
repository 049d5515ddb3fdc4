#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures Portus: a Markdown table on standard output, and JSON.

    make bench                      or, after `make all`:
    B=build tests/bench/bench.py [--quick] [--rows NAME,...] [--size GIB] [--json FILE]

Ratios count, not times: each row compares runs of this one call, which take turns
(plain, with Portus, plain, ...), with each other and with a single-threaded memcpy
of the same bytes, which the saving program itself makes between its saves. Medians,
and in brackets the quartiles. Nothing here is a test; only that a plain and a
captured file are equal is checked, once for each row.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import cost  # noqa: E402
import device  # noqa: E402
import elsewhere  # noqa: E402
import machine  # noqa: E402
import programs  # noqa: E402
import restore  # noqa: E402
import saves  # noqa: E402
import store  # noqa: E402
from lib import program  # noqa: E402
from table import markdown, middle, ratio, seconds, times  # noqa: E402

OTHERS = ["memory", "beside", "calls", "starts", "restore", *device.ROWS, *store.ROWS]
NAMES = [row[0] for row in saves.ROWS] + OTHERS
VARIANTS = {"shim": "", "exact": ", torch's own CRC"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of a GiB, one round")
    parser.add_argument("--rows", help="these only: " + ",".join(NAMES))
    parser.add_argument("--size", type=float, metavar="GIB", help="bytes of a save (1)")
    parser.add_argument("--rounds", type=int, help="processes of each variant of a save (2)")
    parser.add_argument("--json", metavar="FILE", help="where the numbers go (bench.json in B)")
    parser.add_argument("--dir", help="where to save: on the disk that is meant (B)")
    options = parser.parse_args()
    options.size = options.size or (0.25 if options.quick else 1.0)
    options.rounds = options.rounds or (1 if options.quick else 2)
    options.pauses = 2 if options.quick else 4
    options.burst = 3
    options.processes = 3 if options.quick else 15
    options.starts = 60 if options.quick else 300
    options.rows = options.rows.split(",") if options.rows else NAMES
    options.json = options.json or os.path.join(program.BUILD, "bench.json")
    unknown = set(options.rows) - set(NAMES)
    if unknown:
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    return options


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + text[:shutil.get_terminal_size().columns - 1])
    else:
        sys.stderr.write(text + "\n")
    sys.stderr.flush()


# ---- saves -----------------------------------------------------------------------


def numbers(name, samples):
    """What the table says of one row, a dictionary for each variant."""
    plain, found = samples["plain"], {}
    for key, of in samples.items():
        entry = found[key] = {"memcpy": middle(of.memcpy), "first": middle(of.first),
                              "back": middle(of.back), "drained": middle(of.drained),
                              "synced": middle(of.synced), "queued": middle(of.queued),
                              "bytes": of.bytes, "versions": of.versions}
        entry["pause"] = entry["first"] if name == "first" else middle(of.pause)
        entry["to_memcpy"] = ratio(entry["pause"], entry["memcpy"])
        entry["back_to_memcpy"] = ratio(entry["back"], entry["memcpy"])
        if key != "plain":
            entry["faster"] = ratio(found["plain"]["pause"], entry["pause"])
            entry["back_faster"] = ratio(found["plain"]["back"], entry["back"])
            entry["equal"] = of.digest == plain.digest
            entry["saves"], entry["captured"] = of.saves, of.captured
        entry["samples"] = {k: getattr(of, k) for k in saves.KEPT}
    return found


def save_rows(results, when):
    """A table of the saves with a pause before each ("pause") or without ("back")."""
    pause = when == "pause"
    prefix = "" if pause else "back_"
    head = ["a save, half a second after the last one was synced" if pause else "saves back to back",
            "plain s", "Portus s", "× faster", "× memcpy"] + ["readable after s"] * pause
    rows = []
    for name, title, *_ in saves.ROWS:
        row = results.get(name)
        if row is None or name == "first" and not pause:
            continue
        if "skipped" in row:
            rows.append([title, f"skipped: {row['skipped']}"] + [""] * (len(head) - 2))
            continue
        for key, words in VARIANTS.items():
            if key in row:
                of = row[key]
                rows.append([title + words + problems(of), seconds(row["plain"][when]), seconds(of[when]),
                             times(of[prefix + "faster"], 1), times(of[prefix + "to_memcpy"])]
                            + [seconds(of["drained"])] * pause)
    return markdown(head, rows) if rows else ""


def problems(of):
    found = "" if of["captured"] >= of["saves"] else f" (captured {of['captured']} of {of['saves']})"
    return found + ("" if of["equal"] else " **THE FILES DIFFER**")


# ---- the others ------------------------------------------------------------------


def cost_rows(results):
    rows = []
    if "memory" in results:
        of = results["memory"]
        rows += [["ring memory at its peak, of the state's size", "", times(of["peak"]["median"])],
                 ["the same, 5 s after the drain", "", times(of["after"]["median"])],
                 ["drain: processor seconds per GiB", "", seconds(of["processor_per_gib"])]]
    if "beside" in results:
        of = results["beside"]
        rows.append(["seconds that a training loop loses after a save of 1 GiB", seconds(of["plain"]["lost"]),
                     seconds(of["shim"]["lost"])])
    return markdown(["cost", "plain", "Portus"], rows) if rows else ""


def call_rows(results):
    if "calls" not in results:
        return ""
    rows = []
    for name, of in results["calls"].items():
        added = of["shim"]["added"]
        rows.append([name, f"{of['plain']['ns']['median']:.0f}", f"{of['empty']['added']['median']:.1f}",
                     f"{added['median']:.1f} ({added['low']:.1f}–{added['high']:.1f})"])
    return markdown(["an unrelated call", "ns", "an empty library adds ns", "Portus adds ns"], rows)


def start_rows(results):
    if "starts" not in results:
        return ""
    rows = []
    for name, of in results["starts"].items():
        row = [name, f"{of['empty']['wall']['median'] * 1e3:.2f}"]
        row += [times(ratio(of["shim"][k], of["empty"][k]), 3) for k in ("wall", "processor")]
        row.append(times(of["shim"]["wall"]["least"] / of["empty"]["wall"]["least"], 3))
        counts = of["shim"]["instructions"], of["empty"]["instructions"]
        row.append(times(counts[0] / counts[1], 3) if None not in counts else "no valgrind")
        rows.append(row)
    return markdown(["a program that saves nothing", "ms", "× with an empty library", "processor time",
                     "least time", "instructions"], rows)


def store_rows(results):
    rows = store.rows({name: of for name, of in results.items() if "skipped" not in of})
    rows += [[f"{name}: skipped: {results[name]['skipped']}", "", "", ""] for name in store.ROWS
             if "skipped" in results.get(name, {})]
    return markdown(["the store", "", "limit", "× of it"], rows) if rows else ""


def restore_rows(results):
    of = results.get("restore")
    if of is None:
        return ""
    if "skipped" in of:
        return f"torch.load from a pool: skipped: {of['skipped']}"
    return markdown(["torch.load", "s", "× faster than from the disk"],
                    [[words, seconds(of[kind]), times(ratio(of["disk"], of[kind]))] for kind, words in
                     (("disk", "from the disk"), ("cache", "from the page cache"),
                      ("pool", "from a pool in memory, the file on the disk"))])


def device_rows(results):
    skipped = [f"{name}: skipped: {results[name]['skipped']}" for name in device.ROWS if "skipped" in results.get(name, {})]
    tables = device.tables({name: of for name, of in results.items() if "skipped" not in of})
    return "\n\n".join([markdown(*table) for table in tables] + skipped)


def deep_middle(tree):
    """Lists of samples, wherever they are, become medians; the least stays with them."""
    if isinstance(tree, dict):
        return {key: deep_middle(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return {**middle(tree), "least": min(tree), "samples": tree}
    return tree


def measure(options):
    results = {}
    for row in saves.ROWS:
        if row[0] in options.rows:
            try:
                results[row[0]] = numbers(row[0], saves.measure(row, options, progress))
            except programs.Skip as e:
                results[row[0]] = {"skipped": str(e)}
    for name, function in ("memory", cost.memory), ("beside", cost.beside), ("calls", elsewhere.calls), \
            ("starts", elsewhere.starts), ("restore", restore.restore), *device.ROWS.items():
        if name in options.rows:
            try:
                results[name] = deep_middle(function(options, progress))
            except programs.Skip as e:
                results[name] = {"skipped": str(e)}
    for name, function in store.ROWS.items():
        if name in options.rows:
            try:
                results[name] = deep_middle(store.prepare(function(options, progress)))
            except programs.Skip as e:
                results[name] = {"skipped": str(e)}
    return results


def queued(results):
    """The part of all saves' time that the programs waited for a processor: others were at work."""
    waited = total = 0.0
    for row in results.values():
        for of in row.values():
            samples = of.get("samples") if isinstance(of, dict) else None
            if isinstance(samples, dict):
                waited, total = waited + sum(samples["queued"]), total + sum(samples["pause"])
    return waited / total if total else 0.0


def about(found, options, results):
    versions = {}
    for row in results.values():
        versions.update(row.get("plain", {}).get("versions") or {} if "skipped" not in row else {})
    found["versions"] = versions
    found["load_after"] = os.getloadavg()[0]
    memcpy = [row["plain"]["memcpy"]["median"] for row in results.values() if (row.get("plain") or {}).get("memcpy")]
    found["queued"] = queued(results)
    words = [f"{found['cpu']}, {found['cores']} cores, {found['memory_gib']} GiB",
             f"Linux {found['kernel']}, {found['file_system']}",
             ", ".join(f"{name} {version}" for name, version in versions.items()),
             f"{options.size:g} GiB in 210 tensors" + (f", memcpy {min(memcpy):.3f} s" if memcpy else ""),
             f"load {found['load_before']:.1f} before, {found['load_after']:.1f} after",
             f"{found['queued']:.0%} of the saves' time was spent waiting for a processor" if found["queued"] else ""]
    return "; ".join(filter(None, words))


def main():
    options = parse()
    if not os.path.exists(program.SHIM):
        sys.exit(f"{program.SHIM} is not there: run make")
    if not shutil.which(program.python()):
        sys.exit(f"{program.python()} is not there: name a Python that has torch in PORTUS_PYTHON")
    options.dir = tempfile.mkdtemp(prefix="bench-", dir=options.dir or program.BUILD)
    try:
        found = machine.describe(options.dir)
        if found["load_before"] > 0.5:
            progress(f"the load is {found['load_before']}: others work here, times will scatter")
        results = measure(options)
    finally:
        shutil.rmtree(options.dir, ignore_errors=True)
    progress("")
    words = about(found, options, results)
    print(words + "\n")
    for table in save_rows(results, "pause"), save_rows(results, "back"), cost_rows(results), \
            call_rows(results), start_rows(results), restore_rows(results), device_rows(results), store_rows(results):
        if table:
            print(table + "\n")
    with open(options.json, "w") as f:
        json.dump({"machine": found, "size_gib": options.size, "results": results}, f, indent=1)
    differ = [name for name, row in results.items() if any(isinstance(of, dict) and of.get("equal") is False
                                                          for of in row.values())]
    return f"files differ: {', '.join(differ)}" if differ else 0


if __name__ == "__main__":
    sys.exit(main())
