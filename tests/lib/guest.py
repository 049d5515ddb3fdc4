# SPDX-License-Identifier: BSD-3-Clause
"""A small guest: the distribution's own kernel in QEMU over this machine's own root.

The root is this machine's, read-only by 9p, under a tmpfs: there is no image to build, and the guest runs
what was built here. Power is cut by killing QEMU; what its NVDIMM and disk had got stays in their files.
With KVM where that works, else emulated. Not here: what runs in it.
"""
import atexit
import glob
import lzma
import os
import queue
import re
import select
import shutil
import struct
import subprocess
import threading
import time

from . import program

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vm")
# What the guest may need; the modules that they need come with them. rdma_rxe: soft-RoCE.
MODULES = ["virtio_pci", "virtio_console", "virtio_blk", "virtio_net", "9p", "9pnet_virtio", "overlay", "nfit",
           "nd_pmem", "dax_pmem", "device_dax", "crc32c_generic", "ext4", "dm_mod", "crc32_generic", "dummy",
           "rdma_rxe", "rdma_ucm", "sch_netem"]


class Missing(Exception):
    """This machine cannot run guests, and why."""


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
    order = []
    for module in MODULES:  # one that is not there is built in
        for name in [*reversed(needs.get(named.get(module), [])), named.get(module)]:
            if name and name not in order:
                order.append(name)
    entries = [(d, 0o40755, b"") for d in ("bin", "proc", "sys", "dev", "modules", "lower", "over", "root")]
    with open(shutil.which("busybox"), "rb") as f:
        entries.append(("bin/busybox", 0o100755, f.read()))
    with open(f"{HERE}/init", "rb") as f:
        entries.append(("init", 0o100755, f.read()))
    files = [re.sub(r"\.(xz|zst)$", "", os.path.basename(n)) for n in order]
    entries += [(f"modules/{f}", 0o100644, _unpacked(f"{top}/{n}")) for f, n in zip(files, order)]
    entries.append(("modules/order", 0o100644, "\n".join(files).encode()))
    return _cpio(entries)


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


class Guest:
    """One boot. script runs in it; its lines come by line(), the kernel's are in console."""

    def __init__(self, directory, script, arguments="", nvdimm=None, eadr=False, disk=None, size=128,
                 more=()):
        kernel, initramfs, speed = prepare()
        self.console = os.path.join(directory, "console")
        append = f"console=ttyS0 quiet panic=-1 nokaslr mitigations=off audit=0 tsc=reliable no_timer_check " \
                 f"random.trust_cpu=on cryptomgr.notests rcupdate.rcu_expedited=1 portus.run={script} {arguments}"
        machine, memory = "q35", "1024"
        devices = ["-device", "virtio-serial-pci", "-chardev", "stdio,id=out,signal=off",
                   "-device", "virtconsole,chardev=out", "-device", "virtio-rng-pci",
                   "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
                   "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]
        if nvdimm:
            machine += f",nvdimm=on,nvdimm-persistence={'cpu' if eadr else 'mem-ctrl'}"
            memory += f",slots=2,maxmem={1024 + size + 1024}M"
            devices += ["-object", f"memory-backend-file,id=pm,mem-path={nvdimm},share=on,size={size}M",
                        "-device", "nvdimm,id=nv,memdev=pm"]
        if disk:
            devices += ["-drive", f"file={disk},format=raw,if=virtio"]
        argv = ["qemu-system-x86_64", "-machine", machine, "-accel", speed,
                "-cpu", "max,la57=off", "-smp", "2", "-m", memory, "-kernel", kernel, "-initrd", initramfs,
                "-append", append, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-serial", f"file:{self.console}", *devices, *more]
        self.errors = os.path.join(directory, "qemu")
        with open(self.errors, "wb") as err:
            self.qemu = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)
        atexit.register(self.qemu.kill)  # a test that fails leaves none
        self.lines, self.said = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()

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
