# SPDX-License-Identifier: BSD-3-Clause
# torch.jit.save (C++ streams), torch.export.save, torch.package: other writers in PyTorch.
# Right: the module loads and computes the same, before and after the program's end.
# run: needs=torch recheck captures=1 timeout=120 modes=all loose=jit.pt,file.pt,export.pt2,package.pt
import sys
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 64)).eval()
x = torch.randn(2, 1024)
if sys.argv[1:] != ["check"]:
    scripted = torch.jit.trace(model, x)
    torch.jit.save(scripted, "jit.pt")
    with open("file.pt", "wb") as f:
        torch.jit.save(scripted, f)
    torch.export.save(torch.export.export(model, (x,)), "export.pt2")
    with torch.package.PackageExporter("package.pt") as package:
        package.save_pickle("state", "state.pkl", {k: v for k, v in model.state_dict().items()})
with torch.no_grad():
    y = model(x)
    for loaded in (torch.jit.load("jit.pt"), torch.jit.load("file.pt"), torch.export.load("export.pt2").module()):
        assert torch.allclose(loaded(x), y, atol=1e-5)
state = torch.package.PackageImporter("package.pt").load_pickle("state", "state.pkl")
assert all(torch.equal(state[k], v) for k, v in model.state_dict().items())
print("all load")
