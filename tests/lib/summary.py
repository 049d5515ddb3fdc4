# SPDX-License-Identifier: BSD-3-Clause
"""What the shim says on standard error."""
import re

_CAPTURED = re.compile(rb"^portus: summary: captured (\d+) files?\b", re.M)
_REFERRED = re.compile(rb"^portus: summary: from a device: ([\d.]+) %", re.M)
_LINE = re.compile(rb"^portus: .*\n?", re.M)


def captured(stderr):
    """How many files all processes of a run captured; None if no summary was printed."""
    counts = [int(n) for n in _CAPTURED.findall(stderr)]
    return sum(counts) if counts else None


def referred(stderr):
    """The percentage of captured bytes that no CPU copied, of the process that had most."""
    return max((float(n) for n in _REFERRED.findall(stderr)), default=0.0)


def lines(stderr):
    """The shim's own lines."""
    return _LINE.findall(stderr)


def without(stderr):
    """The program's own standard error."""
    return _LINE.sub(b"", stderr)
