"""What ``pip install jaxbandit`` alone must do: import, simulate, and say which extra is missing."""

import subprocess
import sys
from pathlib import Path

import jaxbandit
from jaxbandit import cleaning, simulate

assert "site-packages" in Path(jaxbandit.__file__).parts, f"{jaxbandit.__file__} is not what was installed"
problem = cleaning.synthetic(
    budget=100, entities=1_000, false_values=cleaning.uniform_false_values(0, 19), sc_pdf=cleaning.Uniform()
)
removed = simulate(problem, cleaning.ee(3, 0.667), runs=20)["removed"]
assert removed.shape == (1, 20)
assert 50 < removed.mean() < 90

for call in (lambda: jaxbandit.open_results("out"), lambda: jaxbandit.plot([])):
    said = ""
    try:
        call()
    except ModuleNotFoundError as error:
        said = str(error)
    assert "pip install 'jaxbandit[lab]'" in said, "an extra is missing, and nothing says so"
program = subprocess.run([sys.executable, "-m", "jaxbandit", "list"], capture_output=True, text=True, check=False)
assert program.returncode == 1
assert program.stderr.strip() == "jaxbandit: the command line needs more packages: pip install 'jaxbandit[lab]'"
