"""What a user finds by asking: public names, a tour, and objects that say what they are in a line or two."""

import pydoc
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jaxbandit
from jaxbandit.study import plugins
from jaxbandit.study.spec import Study

ROOT = Path(__file__).parents[1]


def test_names_and_tour() -> None:
    for name in ("simulate", "check", "experiment", "register_policy", "cleaning", "topk", "outliers", "extraction"):
        assert name in dir(jaxbandit)
    for name in dir(jaxbandit):
        assert getattr(jaxbandit, name) is not None
    tour = pydoc.plain(pydoc.render_doc(jaxbandit))
    for name in set(dir(jaxbandit)) - {"__version__"}:
        assert f"``{name}``" in tour or f"``{name}." in tour, name
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = jaxbandit.simulat  # type: ignore[attr-defined]


def test_the_tour_runs() -> None:
    lines = [line[4:] for line in (jaxbandit.__doc__ or "").splitlines() if line.startswith("    ")]
    program = "\n".join([*lines, "print(answers['removed'].shape)"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "(1, 500)\n"


def test_names_do_not_wait_for_jax() -> None:
    program = "import sys, jaxbandit; dir(jaxbandit); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd=ROOT).returncode == 0


@pytest.mark.usefixtures("own_names")
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_objects_are_shown_in_short(path: Path) -> None:
    if path.with_suffix(".py").exists():
        plugins.load(str(path.with_suffix(".py")))
    study = Study.of(tomllib.loads(path.read_text()), base=path.parent)
    assert repr(study).startswith(f"Study({study.problem['kind']}")
    for each in study.configurations():
        for shown in map(repr, (study, each, each.problem, each.setting, each.policy, each.family)):
            assert len(shown) < 500
            assert "\n" not in shown
            assert "array(" not in shown


def test_numbers_are_shown_as_numbers() -> None:
    assert repr(jaxbandit.cleaning.ee(3, 0.667)) == "EE(t=3, need=3, early_stopping=True)"
