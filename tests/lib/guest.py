# SPDX-License-Identifier: BSD-3-Clause
"""A small guest: the distribution's own kernel in QEMU over this machine's own root.

The root is this machine's, read-only by 9p, under a tmpfs: there is no image to build, and the guest runs
what was built here. Power is cut by killing QEMU; what its NVDIMM and disk had got stays in their files.
With KVM where that works, else emulated. Not here: what runs in it.

Most of a boot is the same each time, and takes an emulated guest seconds. So it is done once, stopped before
the guest has looked at an NVDIMM, a disk or the host's files, and kept; others go on from there (again=True).
"""
import atexit
import fcntl
import functools
import glob
import json
import lzma
import os
import queue
import re
import select
import shutil
import socket
import subprocess
import threading
import time

from . import program, trial

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vm")
# What the guest may need; the modules that they need come with them. rdma_rxe: soft-RoCE.
MODULES = ["virtio_pci", "virtio_console", "virtio_blk", "virtio_net", "9p", "9pnet_virtio", "overlay",
           "crc32c_generic", "ext4", "xfs", "dm_mod", "dm_delay", "dm_flakey", "dm_log_writes", "mce_inject",
           "crc32_generic", "dummy", "rdma_rxe", "rdma_ucm", "sch_netem"]
LATE = ["nfit", "nd_pmem", "dax_pmem", "device_dax"]  # those that look at the NVDIMM


class Missing(Exception):
    """This machine cannot run guests, and why."""


def _one_at_a_time(make):
    """Of several tests that run at once one makes it, and the others find it."""
    @functools.wraps(make)
    def locked(*arguments):
        os.makedirs(os.path.join(program.BUILD, "tests/vm"), exist_ok=True)
        with open(os.path.join(program.BUILD, "tests/vm", f"{make.__name__}.lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return make(*arguments)
    return locked


def _unpacked(name):
    """Bytes of a module or kernel."""
    with open(name, "rb") as f:
        data = f.read()
    if name.endswith(".xz"):
        return lzma.decompress(data)
    if name.endswith(".zst"):
        return subprocess.run(["zstd", "-dc", name], capture_output=True, check=True).stdout
    return data


def _cpio(entries):
    """An initramfs: (name, mode, bytes)."""
    out = bytearray()
    for i, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")]):
        raw = name.encode() + b"\0"
        fields = (i + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        out += b"070701" + b"".join(b"%08x" % f for f in fields) + raw
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def _fetch(where):
    """Unpacks the distribution's kernel package into where; nothing is installed."""
    def apt(*argv):
        return subprocess.run(argv, cwd=where, capture_output=True, text=True, check=False,
                              env={**os.environ, "LC_ALL": "C"})
    for meta in ("linux-image-amd64", "linux-image-virtual", "linux-image-generic"):
        found = re.search(r"Depends: (linux-image-(\d\S*))", apt("apt-cache", "depends", meta).stdout)
        if found:
            break
    else:
        raise Missing("apt knows no kernel package (apt-get update)")
    image, version = found.groups()
    for name in (image, f"linux-modules-{version}", f"linux-modules-extra-{version}"):
        done = apt("apt-get", "download", name)
        if done.returncode != 0 and name == image:
            raise Missing(f"apt-get download {name}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    for package in glob.glob(f"{where}/*.deb"):
        subprocess.run(["dpkg", "-x", package, where], check=True)
        os.unlink(package)
    if not glob.glob(f"{where}/usr/lib/modules/*"):
        os.makedirs(f"{where}/usr/lib", exist_ok=True)
        os.rename(f"{where}/lib/modules", f"{where}/usr/lib/modules")
    shutil.rmtree(f"{where}/lib", ignore_errors=True)
    os.symlink("usr/lib", f"{where}/lib")
    subprocess.run(["depmod", "-b", where, version], check=True)


def _initramfs(where, version):
    """busybox, tests/vm/init, and the modules in the order in which they are loaded."""
    top, needs = f"{where}/usr/lib/modules/{version}", {}
    with open(f"{top}/modules.dep", encoding="ascii") as f:
        for line in f:
            name, _, rest = line.partition(":")
            needs[name] = rest.split()
    named = {re.sub(r"\.ko.*", "", os.path.basename(n)).replace("-", "_"): n for n in needs}
    order, late = [], []
    for to, modules in ((order, MODULES), (late, LATE)):
        for module in modules:  # one that is not there is built in
            for name in [*reversed(needs.get(named.get(module), [])), named.get(module)]:
                if name and name not in order + late:
                    to.append(name)
    entries = [(d, 0o40755, b"") for d in ("bin", "proc", "sys", "dev", "modules", "lower", "over", "root")]
    with open(shutil.which("busybox"), "rb") as f:
        entries.append(("bin/busybox", 0o100755, f.read()))
    with open(f"{HERE}/init", "rb") as f:
        entries.append(("init", 0o100755, f.read()))
    for name, modules in (("order", order), ("late", late)):
        files = [re.sub(r"\.(xz|zst)$", "", os.path.basename(n)) for n in modules]
        entries += [(f"modules/{f}", 0o100644, _unpacked(f"{top}/{n}")) for f, n in zip(files, modules)]
        entries.append((f"modules/{name}", 0o100644, "\n".join(files).encode()))
    return _cpio(entries)


@_one_at_a_time
def prepare():
    """(kernel, initramfs, accelerator), made once below the build directory. Missing if it cannot be."""
    for command in ("qemu-system-x86_64", "busybox", "depmod", "ndctl", "mkfs.ext4", "dpkg"):
        if not shutil.which(command, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            raise Missing(f"no {command} (sh scripts/install-deps guest)")
    where = os.path.join(program.BUILD, "tests/vm/kernel")
    if not os.path.exists(f"{where}/vmlinuz"):
        shutil.rmtree(where, ignore_errors=True)
        os.makedirs(where)
        _fetch(where)
        os.symlink(os.path.relpath(glob.glob(f"{where}/boot/vmlinuz-*")[0], where), f"{where}/vmlinuz")
    version = os.path.basename(os.readlink(f"{where}/vmlinuz")).partition("-")[2]
    kernel, initramfs = f"{where}/vmlinux", f"{where}/initramfs"
    if not os.path.exists(kernel):
        # The uncompressed kernel: unpacking itself takes an emulated processor seconds.
        data = _unpacked(f"{where}/vmlinuz")
        at = data.find(b"\xfd7zXZ\0")
        raw = lzma.LZMADecompressor().decompress(data[at:]) if at >= 0 else b""
        if raw[:4] == b"\x7fELF":
            with open(kernel + ".new", "wb") as f:
                f.write(raw)
            os.rename(kernel + ".new", kernel)
        else:
            os.symlink("vmlinuz", kernel)
    sources = (f"{HERE}/init", __file__)
    if not os.path.exists(initramfs) or any(os.path.getmtime(s) > os.path.getmtime(initramfs) for s in sources):
        with open(initramfs + ".new", "wb") as f:
            f.write(_initramfs(where, version))
        os.rename(initramfs + ".new", initramfs)
    return kernel, initramfs, accelerator(where, kernel, initramfs)


def needed(rdma=False):
    """Skips the test where this machine cannot run guests, or what is built has no RDMA."""
    if rdma and not os.path.exists(f"{program.BUILD}/portus_rdma.so"):
        trial.skip("built without rdma-core (sh scripts/install-deps guest)")
    try:
        prepare()
    except Missing as e:
        trial.skip(f"no guest: {e}")


def accelerator(where, kernel, initramfs):
    """kvm, if a guest says something by it: there are machines that have /dev/kvm, and nothing runs by it."""
    answer = f"{where}/accelerator"
    if not os.path.exists(answer):
        works = False
        if os.access("/dev/kvm", os.R_OK | os.W_OK):
            argv = ["qemu-system-x86_64", "-machine", "q35", "-accel", "kvm", "-cpu", "max,la57=off", "-m", "512",
                    "-kernel", kernel, "-initrd", initramfs, "-append", "console=ttyS0 panic=-1", "-nodefaults",
                    "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"]
            with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL) as qemu:
                works = bool(select.select([qemu.stdout], [], [], 10)[0]) and b"\n" in os.read(qemu.stdout.fileno(), 4096)
                qemu.kill()
        with open(answer, "w", encoding="ascii") as f:
            f.write("kvm" if works else "tcg,thread=multi")
    with open(answer, encoding="ascii") as f:
        return f.read()


MEMORY = 1024  # MiB
MTU = 4200  # so that RDMA may have one of 4096


def _command(console, append, nvdimm=None, eadr=False, disks=(), size=128, memory=(), network=None):
    """QEMU's arguments. network: what -netdev is told, after id=n0."""
    kernel, initramfs, speed = prepare()
    append = f"console=ttyS0 quiet panic=-1 nokaslr mitigations=off audit=0 tsc=reliable no_timer_check " \
             f"random.trust_cpu=on cryptomgr.notests rcupdate.rcu_expedited=1 {append}"
    machine, slots = "q35", str(MEMORY)
    devices = ["-device", "virtio-serial-pci", "-chardev", "stdio,id=out,signal=off",
               "-device", "virtconsole,chardev=out", "-device", "virtio-rng-pci",
               "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
               "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]
    if memory:
        machine += ",memory-backend=ram"
    if nvdimm:
        machine += f",nvdimm=on,nvdimm-persistence={'cpu' if eadr else 'mem-ctrl'}"
        slots += f",slots=2,maxmem={MEMORY + size + 1024}M"
        devices += ["-object", f"memory-backend-file,id=pm,mem-path={nvdimm},share=on,size={size}M",
                    "-device", "nvdimm,id=nv,memdev=pm"]
    for disk in disks:
        devices += ["-drive", f"file={disk},format=raw,if=virtio"]
    if network:
        devices += ["-netdev", network, "-device", f"virtio-net-pci,netdev=n0,mac=52:54:00:00:00:00,host_mtu={MTU}"]
    return ["qemu-system-x86_64", "-machine", machine, "-accel", speed,
            "-cpu", "max,la57=off", "-smp", "2", "-m", slots, "-kernel", kernel, "-initrd", initramfs,
            "-append", append, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-serial", f"file:{console}", *devices, *memory]


def _memory(where, share):
    return ["-object", f"memory-backend-file,id=ram,mem-path={where}/ram,share={share},size={MEMORY}M"]


class _Qemu(subprocess.Popen):
    """QEMU, with its monitor. Memory that is shared with a file is no part of what it takes or gives by migration."""

    def __init__(self, argv, errors):
        ours, theirs = socket.socketpair()
        super().__init__([*argv, "-chardev", f"socket,id=monitor,fd={theirs.fileno()}", "-mon", "monitor,mode=control"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, pass_fds=[theirs.fileno()])
        atexit.register(self.kill)  # a test that fails leaves none
        theirs.close()
        self.monitor = ours.makefile("rw", encoding="utf-8")
        ours.close()

    def ask(self, name, /, **arguments):
        """QEMU's answer; {} if there is none."""
        try:
            self.monitor.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
            self.monitor.flush()
            while line := self.monitor.readline():
                if "return" in (answer := json.loads(line)) or "error" in answer:
                    return answer
        except OSError:
            pass
        return {}

    def only_state(self):
        self.ask("qmp_capabilities")
        self.ask("migrate-set-capabilities", capabilities=[{"capability": "x-ignore-shared", "state": True}])


@_one_at_a_time
def booted(eadr, sizes, size, network):
    """A directory with the memory and state of such a guest at the end of its boot, made once."""
    where = os.path.join(program.BUILD, "tests/vm/kernel",
                         "booted-" + "-".join(map(str, ["eadr" if eadr else "adr", size, *sizes, *["net"] * network])))
    _, initramfs, _ = prepare()
    if os.path.exists(f"{where}/state") and os.path.getmtime(f"{where}/state") > os.path.getmtime(initramfs):
        return where
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    for i, megabytes in enumerate([size, *sizes, MEMORY]):
        with open(f"{where}/{'ram' if i > len(sizes) else i}", "wb") as f:
            f.truncate(megabytes << 20)
    argv = _command(f"{where}/console", "portus.wait", f"{where}/0" if size else None, eadr,
                    [f"{where}/{i + 1}" for i in range(len(sizes))], size, _memory(where, "on"),
                    "hubport,id=n0,hubid=0" if network else None)
    qemu = _Qemu(argv, None)
    if b"ready" not in qemu.stdout.readline():
        qemu.kill()
        raise Missing("a guest does not come to the end of its boot")
    qemu.only_state()
    qemu.ask("migrate", uri=f"exec:cat >{where}/state.new")
    while (status := qemu.ask("query-migrate").get("return", {}).get("status")) in ("setup", "active", "device"):
        time.sleep(0.05)
    qemu.kill()
    qemu.wait()
    if status != "completed":
        raise Missing(f"a guest's state cannot be kept: {status}")
    os.rename(f"{where}/state.new", f"{where}/state")
    return where


class Guest:
    """One boot. script runs in it; its lines come by line(), the kernel's are in console."""

    def __init__(self, directory, script, arguments="", nvdimm=None, eadr=False, disk=None, size=128,
                 network=None, again=False):
        self.console = os.path.join(directory, "console")
        disks = [] if disk is None else [disk] if isinstance(disk, str) else disk
        asked = f"portus.run={script} {arguments}"
        if again:
            where = booted(eadr, [os.path.getsize(d) >> 20 for d in disks], size if nvdimm else 0, network is not None)
            argv = [*_command(self.console, "portus.wait", nvdimm, eadr, disks, size, _memory(where, "off"), network),
                    "-incoming", "defer"]
        else:
            argv = _command(self.console, asked, nvdimm, eadr, disks, size, network=network)
        self.errors = os.path.join(directory, "qemu")
        with open(self.errors, "wb") as err:
            self.qemu = _Qemu(argv, err)
        if again:
            self.qemu.only_state()
            self.qemu.ask("migrate-incoming", uri=f"exec:cat {where}/state")
            self.say(f"{asked} portus.time={time.time()}")
        self.lines, self.said = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()

    def say(self, text):
        """A line for the script's standard input."""
        self.qemu.stdin.write(text.encode() + b"\n")
        self.qemu.stdin.flush()

    def _read(self):
        for raw in self.qemu.stdout:
            self.lines.put(raw.decode(errors="replace").rstrip("\r\n"))
        self.lines.put(None)

    def line(self, seconds):
        """Its next line; None: it has ended, or says nothing for so long."""
        try:
            text = self.lines.get(timeout=max(seconds, 0))
        except queue.Empty:
            return None
        if text is not None:
            self.said.append(text)
        return text

    def until(self, wanted, seconds):
        """The lines up to one that begins with wanted, which is the last; None if it does not come."""
        end, begin = time.monotonic() + seconds, len(self.said)
        while (text := self.line(end - time.monotonic())) is not None:
            if text.startswith(wanted):
                return self.said[begin:]
        return None

    def rest(self):
        """What it had said before its power went."""
        begin = len(self.said)
        while self.line(5) is not None:
            pass
        return self.said[begin:]

    def cut(self):
        self.qemu.kill()
        self.qemu.wait()
        return self.rest()

    def tail(self):
        with open(self.console, encoding="ascii", errors="replace") as f, open(self.errors, encoding="utf-8") as e:
            return "\n".join([*self.said[-25:], "console:", *f.read().splitlines()[-15:], "qemu:", e.read()])
