# SPDX-License-Identifier: BSD-3-Clause
# Device copies on an older kernel: one that tells of memory by text and table only (before 6.7), and has
# no MADV_POPULATE_WRITE (before 5.14). A filter refuses what it lacks.
# Right: the same files; and what it lacks it does not need: as much is copied by no CPU.
# run: script timeout=120
import ctypes
import errno
import os
import platform
import struct
import sys

from lib import program, summary, trial

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K: linux/bpf_common.h
ALLOW, ERRNO = 0x7FFF0000, 0x00050000   # linux/seccomp.h
NUMBER, SECOND, THIRD = 0, 24, 32       # in struct seccomp_data: the call, low words of its arguments
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
PAGE_SCAN, MAPPING_QUERY = 0xC0606610, 0xC0686611
POPULATE_READ, POPULATE_WRITE = 22, 23
IOCTL, MADVISE = {"x86_64": (16, 28), "aarch64": (29, 233)}.get(platform.machine(), (0, 0))


def old_kernel():
    """In the child: the calls fail from now on as they would there."""
    program_ = [(LOAD, 0, 0, NUMBER), (EQUAL, 0, 4, IOCTL), (LOAD, 0, 0, SECOND), (EQUAL, 1, 0, PAGE_SCAN),
                (EQUAL, 0, 6, MAPPING_QUERY), (RETURN, 0, 0, ERRNO | errno.ENOTTY),
                (EQUAL, 0, 4, MADVISE), (LOAD, 0, 0, THIRD), (EQUAL, 1, 0, POPULATE_READ),
                (EQUAL, 0, 1, POPULATE_WRITE), (RETURN, 0, 0, ERRNO | errno.EINVAL), (RETURN, 0, 0, ALLOW)]
    code = b"".join(struct.pack("HBBI", *step) for step in program_)
    steps = ctypes.create_string_buffer(code)
    head = struct.pack("HxxxxxxP", len(program_), ctypes.addressof(steps))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for what in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, 2, ctypes.c_char_p(head), 0, 0)):
        if prctl(*what) != 0:
            os._exit(98)


if not IOCTL:
    trial.skip("the numbers of this machine's system calls are not known here")
for name in ("cuda_write", "cuda_memory", "cuda_reuse", "cuda_fork", "cuda_stack"):
    argv = [trial.test_program(name)]
    directories = trial.fresh(), trial.fresh()
    plain = program.run(argv, directories[0], program.environment(trial.JOB), 30)
    trial.expect(plain.status == 0, f"{name}: plain: {plain.how()}", plain)
    outcome = program.run(argv, directories[1], program.environment(trial.JOB, "default"), 30, preexec_fn=old_kernel)
    trial.expect(outcome.status == 0 and outcome.out == plain.out, f"{name}: {outcome.how()}, plain {plain.how()}",
                 outcome)
    trial.same(*directories, name, outcome)
    share = summary.referred(outcome.err)
    print(f"{name}: {share} %")
    trial.expect(share > 20, f"{name}: only {share} % were copied by no CPU", outcome)
sys.exit(0)
