# SPDX-License-Identifier: BSD-3-Clause
# The tests that NumPy, h5py and joblib bring along, by pytest; HDF5 without locks, as locked files are not captured.
# Right: each test passes, fails or is skipped as it does without the shim.
# run: script needs=pytest,numpy,h5py,joblib timeout=300
import os
import subprocess
import xml.etree.ElementTree

from lib import program, trial, world

QUICK = "numpy.lib.tests.test_format", "h5py.tests.test_file2"
MORE = "h5py.tests", "joblib.test.test_numpy_pickle", "numpy.lib.tests.test_io", "numpy._core.tests.test_memmap"


def once(place):
    """{a test: what came out}"""
    os.mkdir(os.path.join(place.path, "tmp"))
    report = os.path.join(trial.TOP, "report.xml")
    if os.path.exists(report):
        os.unlink(report)
    argv = [program.python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--junitxml", report,
            "--pyargs", name]
    out = place.run(argv, 900, LC_ALL="C.UTF-8", HDF5_USE_FILE_LOCKING="FALSE", TMPDIR=os.path.join(place.path, "tmp"))
    found = {"(end)": out.how() if out.late or out.status < 0 or not os.path.exists(report) else "ended"}
    if os.path.exists(report):
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            words = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
            found[f"{case.get('classname')}.{case.get('name')}"] = " ".join(words) or "passed"
    return found


suite = world.Suite("packages")
for name in QUICK + MORE * world.WHOLE:
    suite.case(name, once)
code = "import h5py, joblib, numpy; print('NumPy', numpy.__version__, 'h5py', h5py.__version__, 'joblib', joblib.__version__)"
suite.end(subprocess.run([program.python(), "-c", code], capture_output=True, text=True, check=False).stdout.strip())
