"""Policies from elsewhere: --plugin, register_policy, installed packages; what is wrong with them is one line."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import jaxbandit
from jaxbandit import BadInput, cli, register_policy
from jaxbandit.registry import Key, whole
from jaxbandit.study import families, plugins
from jaxbandit.study.sources import source_of
from tests import toy

PLUGIN = """
import numpy as np
from jaxbandit import register_policy
from tests.toy import Coin

@register_policy("toy")
def tossed_up(share: float = 0.5):
    '''Throws either coin.

    More of it.'''
    return Coin(np.float32(share * {factor}))
"""
STUDY = 'runs = 30\n[problem]\nkind = "toy/coins"\nbudget = 20\n[[policy]]\nkind = "tossed-up"\nshare = [0.0, 1.0]\n'


@pytest.fixture(autouse=True)
def _toy(own_names: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")  # so that main leaves this process as it is
    families.FAMILIES["toy"] = toy.FAMILY
    yield
    for name in ("my_rules", "broken", "empty"):  # a test may import them, or load them in vain
        sys.modules.pop(name, None)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "my_rules.py").write_text(PLUGIN.format(factor=1))
    return tmp_path / "study.toml"


def test_a_plugin_in_a_study(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", str(study), "--out", str(tmp_path / "out")]
    assert cli.main(command) == 2
    line = "jaxbandit: policy.kind = tossed-up: one of best, mixed; one of your own comes from --plugin FILE.py\n"
    assert capsys.readouterr().err == line
    plugin = ["--plugin", str(tmp_path / "my_rules.py")]
    assert cli.main([*command, *plugin]) == 0
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())
    heads = [row for row in rows if row["metric"] == "heads"]
    assert [row["params"]["share"] for row in heads] == [0.0, 1.0]
    assert heads[0]["mean"] < 0.35 < 0.65 < heads[1]["mean"]
    assert cli.main([*command, *plugin, *plugin]) == 0  # again, and twice: nothing else
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == rows
    capsys.readouterr()
    assert cli.main(["list", "toy", "policies", "--search", "TOSSED", *plugin]) == 0
    assert capsys.readouterr().out == "policy tossed-up: Throws either coin\n    share (default 0.5): share\n"


def test_an_imported_module_is_the_same_study_until_its_source_changes(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line with --plugin and Python with an import have one folder; an edited rule has another."""
    assert cli.main(["run", str(study), "--out", str(tmp_path / "out"), "--plugin", str(tmp_path / "my_rules.py")]) == 0
    for name in plugins._registered, plugins._loaded:
        name.clear()
    families.FAMILIES["toy"] = toy.FAMILY
    monkeypatch.syspath_prepend(tmp_path)
    del sys.modules["my_rules"]
    importlib.import_module("my_rules")
    found = jaxbandit.run_study(jaxbandit.load_study(study), tmp_path / "out", progress=False)
    assert found.sizes["run"] == 30
    (tmp_path / "my_rules.py").write_text(PLUGIN.format(factor="0.50"))
    importlib.reload(sys.modules["my_rules"])
    with pytest.raises(BadInput, match=r"plugins\.tossed-up differs in the study it holds"):
        jaxbandit.run_study(jaxbandit.load_study(study), tmp_path / "out", progress=False)


def test_results_of_another_version_are_not_continued(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", str(study), "--out", str(tmp_path / "out"), "--plugin", str(tmp_path / "my_rules.py")]
    assert cli.main(command) == 0
    before = (tmp_path / "out" / "summary.json").read_bytes()
    (tmp_path / "my_rules.py").write_text(PLUGIN.format(factor=0.5))
    del sys.modules["my_rules"]
    capsys.readouterr()
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert "plugins.tossed-up differs in the study it holds" in said
    assert said.count("\n") == 1
    assert (tmp_path / "out" / "summary.json").read_bytes() == before
    # A study of others is the same with the plugin and without.
    study.write_text(STUDY.replace('"tossed-up"', '"mixed"'))
    assert cli.main([*command[:3], str(tmp_path / "other"), *command[4:]]) == 0
    assert cli.main([*command[:3], str(tmp_path / "other")]) == 0


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("none.py", None, "none.py: a Python file that exists, or the name of a module"),
        ("no_such_module", None, "no_such_module: a Python file, or a module, that can be imported (ModuleNotF"),
        ("study.toml", None, "study.toml: a Python file that exists"),
        (".", None, ".: a Python file that exists"),
        ("json", None, "json: a file that registers a policy or a family"),
        ("json.py", "", "json.py: a file of another name: json is a module already"),
        ("zipapp.py", "", "zipapp.py: a file of another name: zipapp is a module already"),
        ("empty.py", "", "empty.py: a file that registers a policy or a family"),
        ("broken.py", "def", "broken.py: a Python file, or a module, that can be imported (SyntaxError: "),
        ("broken.py", "1 / 0", "broken.py: a Python file, or a module, that can be imported (ZeroDivisionError: "),
        ("broken.py", "exit(0)", "broken.py: a Python file, or a module, that can be imported (SystemExit: 0)"),
    ],
)  # fmt: skip
def test_bad_plugins(
    study: Path, tmp_path: Path, name: str, content: str | None, line: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_text(content)
    before = sorted(tmp_path.iterdir())
    assert cli.main(["run", "study.toml", "--out", "out", "--plugin", name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"jaxbandit: --plugin = {line}")
    assert said.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
    assert cli.main(["run", "study.toml", "--out", "out", "--plugin"]) == 2
    assert capsys.readouterr().err.startswith("jaxbandit: --plugin = missing: a value")


def test_a_function_that_returns_no_policy(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register_policy("toy", "nothing")(lambda: None)
    study.write_text('runs = 5\n[problem]\nkind = "toy/coins"\nbudget = 9\n[[policy]]\nkind = "nothing"\n')
    assert cli.main(["run", str(study), "--out", str(tmp_path / "out")]) == 2
    line = "policy.nothing = a function that returns nothing: one that returns the policy; see docs/own-policy.md, "
    assert capsys.readouterr().err.startswith(f"jaxbandit: {line}")


def test_keys_are_what_the_function_says() -> None:
    @register_policy("toy", name="words", anytime=True)
    def anything(
        setting: Any,
        share: Annotated[float, "how much"],
        sure: bool = False,
        times: Annotated[int, whole(1, 3)] = 2,
        side: Literal["low", "high"] = "low",
        least: Annotated[int, Key(whole(1, 9), label="least (throws)")] = 1,
    ) -> Any:
        assert setting.budget == 20
        return toy.Coin(np.float32(share if sure else times / 4))

    kind = families.FAMILIES["toy"].policies["words"]
    assert (kind.summary, kind.anytime) == ("a policy of your own", True)
    told = [(each.name, each.help, each.required, each.default) for each in kind.parameters]
    assert told[0][:3] == ("share", "how much", True)
    assert told[1:] == [
        ("sure", "sure", False, False), ("times", "times", False, 2), ("side", "side", False, "low"),
        ("least", "least", False, 1),
    ]  # fmt: skip
    assert kind.parameters[-1].label == "least (throws)"
    study = {"runs": 2, "problem": {"kind": "toy/coins", "budget": 20}}

    def made(**keys: Any) -> Any:
        [found] = jaxbandit.Study.of(study | {"policy": [{"kind": "words"} | keys]}).configurations()
        return found

    assert made(share=0.25, sure=True).policy.share == 0.25
    params = {"budget": 20, "share": 1.0, "sure": False, "times": 3, "side": "low", "least": 1}
    assert made(share=1, times=3).params == params
    for keys, line in (
        ({}, "policy.words.share = missing: how much"),
        ({"share": "x"}, "policy.words.share = x: a number from"),
        ({"share": 1, "times": 4}, "policy.words.times = 4: a whole number from 1 to 3"),
        ({"share": 1, "side": "left"}, "policy.words.side = left: one of low, high"),
        ({"share": 1, "least": 10}, "policy.words.least = 10: a whole number from 1 to 9"),
        ({"share": 1, "more": 1}, "policy.words.more = 1: no such key; there are share, sure, times, side, least"),
    ):
        with pytest.raises(BadInput) as error:
            made(**keys)
        assert str(error.value).startswith(line)


def typed(annotation: Any, name: str = "share") -> Callable[..., None]:
    namespace: dict[str, Any] = {"annotation": annotation}
    exec(f"def rule({name}: annotation) -> None: ...", namespace)
    found: Callable[..., None] = namespace["rule"]
    return found


@pytest.mark.parametrize(
    ("register", "line"),
    [
        (lambda: register_policy("coins"), "register_policy.family = coins: one of cleaning, topk, outliers, extr"),
        (lambda: register_policy("toy", "best")(lambda: None), "register_policy.name = best: a name that toy has not"),
        (lambda: register_policy("toy", "new")(lambda share: None), "register_policy, argument share = nothing: "),
        (lambda: register_policy("toy", "new")(typed(Literal[1, 2])),
         "register_policy, argument share = typing.Literal[1, 2]: annotated int, float, bool, str or a Literal of w"),
        (lambda: register_policy("toy", "new")(typed(Literal["one", 2])), "register_policy, argument share = typing"),
        (lambda: register_policy("toy", "new")(typed(str, "kind")),
         "register_policy, argument = kind: a name that is none of budget, "),
        (lambda: register_policy("toy", "new")(typed(int, "budget")),
         "register_policy, argument = budget: a name that is none of budget, "),
    ],
)  # fmt: skip
def test_what_cannot_be_registered(register: Callable[[], Any], line: str) -> None:
    with pytest.raises(BadInput) as error:
        register()
    assert str(error.value).startswith(line)


def test_a_policy_may_have_what_those_of_its_family_have() -> None:
    register_policy("outliers", "of-pairs")(typed(float, "rho"))
    assert [each.name for each in families.FAMILIES["outliers"].policies["of-pairs"].parameters] == ["rho"]


def test_a_policy_may_have_a_file_of_its_own() -> None:
    register_policy("cleaning", "of-a-file")(typed(str, "path"))
    assert [each.name for each in families.FAMILIES["cleaning"].policies["of-a-file"].parameters] == ["path"]


def test_installed_packages(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    points = [metadata.EntryPoint("a", "broken", plugins.GROUP), metadata.EntryPoint("b", "my_rules", plugins.GROUP)]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points)
    monkeypatch.setattr(plugins, "_groups", [plugins.GROUP])
    loaded = jaxbandit.load_study(study)
    assert [each.label for each in loaded.configurations()] == ["tossed-up share=0.0", "tossed-up share=1.0"]
    assert list(loaded.identity()["plugins"]) == ["tossed-up"]
    [line] = [record.getMessage() for record in caplog.records]
    assert line == "jaxbandit: the plugin broken cannot be loaded (ZeroDivisionError: division by zero)"


def test_a_study_checks_policies_of_plugins(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my_rules.py").write_text(PLUGIN.format(factor=1).replace("Coin(np.float32(share * 1))", "share"))
    assert cli.main(["run", str(study), "--out", str(tmp_path / "out"), "--plugin", str(tmp_path / "my_rules.py")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "jaxbandit: policy float.init = missing: a method; a policy has init, ask, tell, done and ans"
    )
    assert not (tmp_path / "out").exists()


def test_a_live_session_checks_policies_of_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a study does: nobody is to be asked for the answers that a NaN takes for the best."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "examples" / "own_index.py").read_text()
    (tmp_path / "my_rules.py").write_text(text.replace("return mean +", "return jnp.nan * mean +"))
    problem = '[problem]\nkind = "topk/bernoulli"\nn = 4\nK = 1\nbudget = 40\n'
    (tmp_path / "study.toml").write_text(f'{problem}[[policy]]\nkind = "ucb"\n')
    command = ["live", "begin", "study.toml", "--policy", "ucb", "--journal", "arms.db", "--plugin", "my_rules.py"]
    assert cli.main(command) == 2
    assert capsys.readouterr().err.startswith("jaxbandit: policy UCB.index, state.indices = NaN after one of the first")
    assert not (tmp_path / "arms.db").exists()


def test_what_has_no_file_is_stamped_by_its_text() -> None:
    """As in a notebook, or with python -c."""
    module = ModuleType("without_a_file")
    exec("def rule():\n    return 1\n", module.__dict__)
    sys.modules[module.__name__] = module
    try:
        assert source_of(module.rule) == source_of(module.rule)
    finally:
        del sys.modules[module.__name__]


def test_code_that_was_edited_after_its_import_is_not_what_its_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that goes on with the old code does not stamp its results with the new file."""
    file = tmp_path / "edited_later.py"
    text = "class Rule:\n    share = 1\n    def done(self):\n        return {0}\n\n\ndef metric():\n    return 3\n"
    file.write_text(text.format(1))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("edited_later")
    one = source_of(module.Rule), source_of(module.metric)
    assert one[0] == one[1]  # of the file
    file.write_text(text.format(2))
    edited = source_of(module.Rule)
    assert edited != one[0]
    assert source_of(module.metric) not in (one[1], edited)  # its own code is that of the file; the file is another one
    monkeypatch.delitem(sys.modules, "edited_later")
    importlib.invalidate_caches()
    again = importlib.import_module("edited_later")
    assert source_of(again.Rule) not in (one[0], edited)
