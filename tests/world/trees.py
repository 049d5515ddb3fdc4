# SPDX-License-Identifier: BSD-3-Clause
# Trees that tools build: a C project by gcc and make -j2, the same by cmake and ninja, wheels that pip installs into a fresh
# environment, and packages that are unpacked, linked into an environment and renamed over those of before, as conda does.
# Right: the same output, the same tree to the byte and the mode; nothing is left to be built or compiled again.
# run: script timeout=300
import glob
import os
import random
import shutil
import subprocess
import sys

from lib import program, trial, world

MODULES = 24 if world.WHOLE else 6
WHEELS = os.environ.get("WHEELS") or os.path.join(os.path.dirname(os.path.dirname(program.python())), "wheels")  # scripts/install-deps venv-test

MAKE = """
CFLAGS = -O1 -g
OBJECTS = $(patsubst %.c,obj/%.o,$(wildcard *.c))
all: program libshared.so
obj/%.o: %.c all.h
\t@mkdir -p obj
\tgcc $(CFLAGS) -fPIC -MMD -c -o $@ $<
libparts.a: $(filter-out obj/main.o,$(OBJECTS))
\tar rcsD $@ $^
program: obj/main.o libparts.a
\tgcc -o $@ $^
libshared.so: $(filter-out obj/main.o,$(OBJECTS))
\tgcc -shared -o $@ $^
-include obj/*.d
"""
CMAKE = """
cmake_minimum_required(VERSION 3.13)
project(parts C)
file(GLOB parts CONFIGURE_DEPENDS part*.c)
add_library(parts STATIC ${parts})
set_property(TARGET parts PROPERTY POSITION_INDEPENDENT_CODE ON)
add_library(shared SHARED ${parts})
add_executable(program main.c)
target_link_libraries(program parts)
install(TARGETS program shared parts DESTINATION installed)
install(FILES all.h DESTINATION installed/include)
"""
# What it unpacks, links, replaces: {name: bytes}. Files are linked where nothing in them is to be changed.
CONDA = r"""
import os, random, shutil, stat, tarfile
PREFIX = b"/a/place/that/is/long/enough/to/be/replaced/by/another/one"
def pack(name, version):
    source = random.Random(name + version)
    top = f"make/{name}-{version}"
    os.makedirs(f"{top}/bin"), os.makedirs(f"{top}/lib/{name}")
    for i in range(20):
        with open(f"{top}/lib/{name}/{i}.py", "w") as f:
            f.write("x = 1\n" * source.randrange(400))
    with open(f"{top}/lib/lib{name}.so.{version}", "wb") as f:
        f.write(source.randbytes(source.randrange(1 << 20, 4 << 20)) + PREFIX + bytes(200) + b"end")
    os.symlink(f"lib{name}.so.{version}", f"{top}/lib/lib{name}.so")
    with open(f"{top}/bin/{name}", "wb") as f:
        f.write(b"#!" + PREFIX + b"/bin/python\nprint('" + name.encode() + b"')\n")
    os.chmod(f"{top}/bin/{name}", 0o755)
    with tarfile.open(f"{name}-{version}.tar.gz", "w:gz", compresslevel=1) as tar:
        tar.add(top, ".")
    shutil.rmtree("make")
def install(name, version):
    where = f"pkgs/{name}-{version}"
    with tarfile.open(f"{where}.part.tar.gz", "w:gz", compresslevel=1) as tar:
        pass
    os.replace(f"{name}-{version}.tar.gz", f"{where}.tar.gz")
    os.unlink(f"{where}.part.tar.gz")
    with tarfile.open(f"{where}.tar.gz") as tar:
        tar.extractall(where + ".part")
    os.rename(where + ".part", where)
    linked = []
    for at, directories, files in os.walk(where):
        to = os.path.normpath(os.path.join("env", os.path.relpath(at, where)))
        os.makedirs(to, exist_ok=True)
        for file in sorted(files):
            a, b = os.path.join(at, file), os.path.join(to, file)
            linked.append(b)
            if os.path.lexists(b):
                os.rename(b, b + ".trash")
            data = b"" if os.path.islink(a) else open(a, "rb").read()
            if PREFIX in data:
                new = os.path.join(os.getcwd(), "env").encode()[-len(PREFIX):]
                with open(b + ".new", "wb") as f:
                    f.write(data.replace(PREFIX, new + bytes(len(PREFIX) - len(new)) * (b"\0" in data)))
                os.chmod(b + ".new", stat.S_IMODE(os.stat(a).st_mode))
                os.rename(b + ".new", b)
            elif os.path.islink(a):
                os.symlink(os.readlink(a), b)
            else:
                os.link(a, b)
            if os.path.lexists(b + ".trash"):
                os.unlink(b + ".trash")
    with open(f"env/{name}.json", "w") as f:
        f.write(repr(sorted(linked)))
    with open("env/history", "a") as f:
        f.write(f"{name} {version}\n")
os.makedirs("pkgs"), os.makedirs("env")
names = ["alpha", "beta", "gamma", "delta"]
for version in "1", "2":
    [pack(name, version) for name in names]
    [install(name, version) for name in names]
shutil.rmtree("pkgs/alpha-1")
print(open("env/history").read(), len(os.listdir("env/lib/beta")), os.stat("env/lib/beta/3.py").st_nlink)
"""
# Of each .pyc, whether it was made of the file that is there: else Python makes it again at each start.
STALE = r"""
import os, struct, sys
stale = seen = 0
for at, _, files in os.walk(sys.argv[1]):
    for name in files:
        if name.endswith(".pyc") and os.path.basename(at) == "__pycache__":
            source = os.stat(os.path.join(os.path.dirname(at), name.split(".")[0] + ".py"))
            with open(os.path.join(at, name), "rb") as f:
                flags, time, size = struct.unpack("<4xIII", f.read(16))
            seen += 1
            stale += flags != 0 or (time, size) != (int(source.st_mtime) & 0xffffffff, source.st_size & 0xffffffff)
print("stale", stale, "of", "many" if seen > 20 else seen)
"""


def sources(top):
    """A program of many parts; what it prints depends on each."""
    words = random.Random(2)
    os.makedirs(top)
    with open(f"{top}/all.h", "w", encoding="ascii") as f:
        f.write("".join(f"long part{i}(long x);\n" for i in range(MODULES)))
    for i in range(MODULES):
        with open(f"{top}/part{i}.c", "w", encoding="ascii") as f:
            f.write(f'#include "all.h"\nstatic const long table[] = {{{",".join(str(words.randrange(1 << 30)) for _ in range(20000))}}};\n')
            f.writelines(f"long f{i}_{j}(long x) {{ return x * {words.randrange(99)} + table[(unsigned long)x % 20000]; }}\n" for j in range(40))
            f.write(f"long part{i}(long x) {{ return {' ^ '.join(f'f{i}_{j}(x + {j})' for j in range(40))}; }}\n")
    with open(f"{top}/main.c", "w", encoding="ascii") as f:
        f.write('#include <stdio.h>\n#include "all.h"\nint main(void) { printf("%ld\\n", ' +
                " ^ ".join(f"part{i}({i})" for i in range(MODULES)) + "); return 0; }\n")
    for name, text in (("Makefile", MAKE), ("CMakeLists.txt", CMAKE)):
        with open(f"{top}/{name}", "w", encoding="ascii") as f:
            f.write(text)


def commands(lines, without=()):
    """Each line by bash, in a copy of the project; the output's lines in any order, as two jobs take turns."""
    def once(place):
        found = {}
        sources(f"{place.path}/project")
        for line in lines.strip().splitlines():
            out = place.run(["bash", "-c", f"cd project; {line}"], 240)
            found[line] = (out.how(), sorted(out.out.splitlines()), out.err)
        tree = place.tree()
        return found | {name: told for name, told in tree.items() if os.path.basename(name) not in without}
    return once


def pip(place):
    """pip's environment, by SOURCE_DATE_EPOCH the same each time; then compiled anew, by the files' times."""
    pip_of = [program.python(), "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-cache-dir"]
    env, found = f"{place.path}/env", {}
    steps = {"venv": [program.python(), "-m", "venv", "--without-pip", env],
             "install": [*pip_of, "--python", f"{env}/bin/python", "install", "-q", "--no-index", "--no-deps", *sorted(glob.glob(f"{WHEELS}/*.whl"))],
             "check": [*pip_of, "--python", f"{env}/bin/python", "list", "--format=freeze"],
             "again": [*pip_of, "--python", f"{env}/bin/python", "install", "-q", "--no-index", "--no-deps", "--force-reinstall",
                       *sorted(glob.glob(f"{WHEELS}/*.whl"))]}
    for name, argv in steps.items():
        out = place.run(argv, 400, PYTHONDONTWRITEBYTECODE="", SOURCE_DATE_EPOCH="946684800", TMPDIR=place.path)
        found[name] = (out.how(), out.out, out.err)
    found |= place.tree("env")
    unpacked = f"{place.path}/unpacked"
    for name, code in (("unpack", "import sys, zipfile; [zipfile.ZipFile(w).extractall(sys.argv[1]) for w in sys.argv[2:]]"),
                       ("compile", "import compileall, sys; print(bool(compileall.compile_dir(sys.argv[1], quiet=2, workers=2)))"),
                       ("times", STALE)):
        out = place.run([sys.executable, "-c", code, unpacked, *sorted(glob.glob(f"{WHEELS}/*.whl"))], 400, PYTHONDONTWRITEBYTECODE="")
        found[name] = (out.how(), out.out, out.err)
    return found


def conda(place):
    out = place.run([sys.executable, "-c", CONDA], 240)
    return {"end": (out.how(), out.out, out.err)} | {name: told for name, told in place.tree().items() if not name.endswith(".tar.gz")}


world.tools("gcc", "ar", "make")
suite = world.Suite("trees")
suite.case("make -j2", commands("make -j2 -s; ./program\nmake -s; echo $?; make -q; echo $?\n"
                                "touch part1.c; make -s; ./program; make -q; echo $?; make -n\n"
                                "sed -i s/main/main/ main.c; make -s CFLAGS=-O2 obj/main.o; make -j2 -s; ./program"))
said = [subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()]
if world.WHOLE:
    if shutil.which("cmake") and shutil.which("ninja"):
        # Their logs have times and temporary names in them.
        suite.case("cmake and ninja", commands(
            "cmake -G Ninja -B out . -DCMAKE_INSTALL_PREFIX=$PWD/to -DCMAKE_BUILD_TYPE=Release | grep -c 'Generating done'\n"
            "ninja -C out -j2 | tail -1; out/program\nninja -C out\ntouch part1.c; ninja -C out | grep -c .; ninja -C out; out/program\n"
            "ninja -C out install | tail -n +2; to/installed/program; ninja -C out -t clean | tail -1; ninja -C out -j2 | tail -1; out/program\n"
            "cmake --build out; cmake -B out . | grep -c done; ninja -C out",
            (".ninja_log", ".ninja_deps", "CMakeOutput.log", "CMakeError.log", "CMakeConfigureLog.yaml")))
    else:
        said.append("not there: cmake or ninja")
    suite.case("linked as conda does", conda)
    if glob.glob(f"{WHEELS}/*.whl"):
        suite.case("pip", pip)
        said.append(f"{len(glob.glob(WHEELS + '/*.whl'))} wheels")
    else:
        said.append(f"no wheels in {WHEELS}: sh scripts/install-deps venv-test")
suite.end(*said)
