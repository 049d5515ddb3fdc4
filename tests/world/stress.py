# SPDX-License-Identifier: BSD-3-Clause
# stress-ng's file-system stressors, which check what they wrote, links, names, sizes, times, locks. Most of their files have
# no name any more when they are written, and so are not captured.
# Right: each passes, is skipped or fails as it does without the shim, and leaves nothing.
# run: script timeout=300
import os
import re

from lib import program, trial, world

# Operations, not seconds, so that two runs do the same.
STRESSORS = """
access:20 aio:200 chattr:10 chdir:10 chmod:50 chown:50 copy-file:40 dentry:300 dir:300 dirdeep:40 dirmany:300 dnotify:40
dup:100 eventfd:100 fallocate:40 fcntl:100 fiemap:100 file-ioctl:20 filename:50 flock:100 fsize:20 fstat:100
getdent:20 handle:50 hdd:200 hdd:60,--hdd-opts=rd-rnd,wr-rnd,iovec hdd:60,--hdd-opts=utimes,fsync,fadv-seq hdd:20,--hdd-opts=direct
inotify:5 io:20 iomix:300 iomix:200,--iomix-bytes=16m lease:30 link:3 locka:100 lockf:100 lockofd:100 mknod:50
open:500 pipe:100 readahead:50 rename:200 revio:300 seek:100 seek:100,--seek-punch sendfile:100 splice:100 symlink:3 sync-file:20
touch:300 unlink:20 utime:200 vm-splice:100 xattr:30
""".split()
QUICK = "dnotify:20 inotify:3 lockf:100 hdd:60,--hdd-opts=rd-rnd,wr-rnd,iovec iomix:100 fallocate:20".split()
BYTES = {"hdd": "16m", "copy-file": "2m", "fallocate": "8m", "iomix": "8m", "revio": "8m", "seek": "8m", "readahead": "2m",
         "fiemap": "8m", "sync-file": "8m"}


def stressor(words):
    name, _, more = words.partition(":")
    ops, *options = more.split(",--")

    def once(place):
        os.mkdir(os.path.join(place.path, "files"))
        argv = ["stress-ng", f"--{name}", "1", f"--{name}-ops", ops, "--verify", "--temp-path", "files", "--timeout", "40",
                "--no-rand-seed", "--oomable", *(f"--{o}" for o in options)]
        if BYTES.get(name) and not any("bytes" in o for o in options):
            argv += [f"--{name}-bytes", BYTES[name]]
        out = place.run(argv, 120)
        text = (out.out + out.err).decode(errors="replace")
        said = sorted(set(re.sub(r"\[\d+\]|\d+", "#", line) for line in re.findall(r"stress-ng: (?:fail|error).*", text)))
        return {"end": out.how(), "failures": said, "skipped": "skipped" in text and "passed: 1" not in text,
                "left": len(os.listdir(os.path.join(place.path, "files")))}
    return once


world.tools("stress-ng")
suite = world.Suite("stress")
for words in STRESSORS if world.WHOLE else QUICK:
    suite.case(words, stressor(words))
suite.end(program.run(["stress-ng", "--version"], trial.TOP, program.environment(trial.JOB)).out.decode().strip())
