# SPDX-License-Identifier: BSD-3-Clause
# The environment variables: env.def is the one table.
# Right: README and manual page name each of them and no other, with the same words for values.
# run: script
import glob
import os
import re

from lib import trial

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


table = re.findall(r'^VARIABLE\("(\w+)",\s*(\w+),\s*\w+,\s*((?:"[^"]*"\s*)+),\s*"([^"]*)"', read(f"{ROOT}/src/common/env.def"), re.M)
variables = {name: (kind, right.split("|")) for name, kind, _, right in table}
trial.expect(len(variables) >= 10, "env.def was not understood")
# Named in the documentation, but not of the library: of its scripts and tests.
OTHER = {"PORTUS_PYTHON", "PORTUS_VENV", "PORTUS_VERSION"}
pages = [f"{ROOT}/README.md", *glob.glob(f"{ROOT}/man/portus.7.scd")]
trial.expect(len(pages) == 2, "no man/portus.7.scd")
for page in pages:
    text, where = read(page).replace("\\", ""), os.path.relpath(page, ROOT)
    named = set(re.findall(r"\bPORTUS(?:_[A-Z_]+)?\b(?=[*`=\s])", text)) - OTHER
    trial.expect(variables.keys() <= named, f"{where} does not name {sorted(variables.keys() - named)}")
    trial.expect(named <= variables.keys(), f"{where} names {sorted(named - variables.keys())}, which env.def does not")
    for name, (kind, values) in variables.items():
        if kind == "choice":
            missing = [v for v in values if not re.search(rf"\b{v}\b", text)]
            trial.expect(not missing, f"{where}: {name}: no word of {missing}")
print(f"{len(variables)} variables")
