"""What a new user gets wrong in a study of the cleaning or the top-K family: one line that names the field, status 2,
and nothing written."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxbandit import Study, check, cleaning, cli, extraction, outliers, register_policy, simulate, topk
from jaxbandit.arms.problem import arms, given
from jaxbandit.arms.rewards import Bernoulli
from jaxbandit.errors import BadInput
from jaxbandit.grammar import accelerated
from jaxbandit.registry import between, flag, real, whole
from jaxbandit.study.spec import load

SYNTHETIC = 'kind = "cleaning/synthetic"\n'
EE = 'kind = "ee"\n'


def table(path: str = "claims.csv", entity: str = "flight", value: str = "time") -> str:
    return f'budget = 10\nkind = "cleaning/table"\npath = "{path}"\nentity = "{entity}"\nvalue = "{value}"\n'


def law(spec: str) -> str:
    return f"{SYNTHETIC}budget = 10\nsc_pdf = {spec}\n"


def values(spec: str) -> str:
    return f"{SYNTHETIC}budget = 10\nfalse_values = {spec}\n"


def contents(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(autouse=True)
def _one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")  # so that main leaves this process as it is


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not ``tmp_path``, whose name is long: the line would have it shortened."""
    return tmp_path_factory.mktemp("it")


@pytest.fixture
def refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Gives a study to a verb, checks how it is refused, and returns the line."""
    files = {
        "claims.csv": b"flight,time\na,1\na,2\nb,1\n",
        "empty.csv": b"",
        "header.csv": b"flight,time\n",
        "latin.csv": b"flight,time\na,\xff\n",
        "torn.db": b"SQLite format 3\0" + bytes(500),
        "flat.csv": b"flight,time\na,1\na,1\n",
        "past.csv": b"successes,attempts\n1,2\n5,4\n",
        "arms.csv": b"worker,successes,trials\na,3,4\nb,5,4\n",
        "idle.csv": b"worker,successes,trials\na,3,4\nb,0,0\n",
        "half.csv": b"worker,successes,trials\na,3.5,4\n",
        "rewards.csv": b"arm,reward\na,1\nb,nan\n",
        "gap.csv": b"arm,reward\na,1\nb,\n",
        "times.csv": b"arm,reward\na,1700000000\nb,1700000007\n",
        "huge.csv": b"arm,reward\na,1e39\nb,2\n",
        "vast.csv": b"arm,reward\na,1e37\nb,2e37\n",
        "tiny.csv": b"arm,reward\na,1e-50\nb,3e-50\n",
        "python.csv": b"arm,reward\na,1\nb,1_0\n",
        "arabic.csv": "arm,reward\na,٣\n".encode(),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()

    def run(problem: str, policy: str = EE, head: str = "runs = 3\n", verb: str = "run") -> str:
        study = folder / "study.toml"
        study.write_text(f"{head}\n[problem]\n{problem}\n[[policy]]\n{policy}")
        before = contents(folder)
        assert cli.main([verb, str(study), "--out", str(folder / "out")]) == 2
        out, said = capsys.readouterr()
        assert out == ""
        assert said.count("\n") == 1
        assert said.startswith("jaxbandit: ")
        assert before == contents(folder)
        return said.removeprefix("jaxbandit: ").replace(f"{folder}/", "").rstrip("\n")

    return run


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (SYNTHETIC, "problem.budget = missing: units of cost, a whole number from 1 to 2147483647"),
        (SYNTHETIC + "budget = 0", "problem.budget = 0: a whole number from 1 to 2147483647"),
        (SYNTHETIC + "budget = 2147483648", "problem.budget = 2147483648: a whole number from 1 to 2147483647"),
        (SYNTHETIC + "budget = nan", "problem.budget = nan: a whole number from 1 to 2147483647"),
        (SYNTHETIC + "budget = 1\nentities = 0", "problem.entities = 0: a whole number from 1 to 2147483647"),
        (SYNTHETIC + "budget = 1\nsize = 1", "problem.size = 1: no such key; there are budget, entities, false_values"),
        ('kind = "cleaning/made-up"', "problem.kind = cleaning/made-up: one of cleaning/synthetic, cleaning/table"),
        (values("{ uniform = [5, 2] }"), "problem.false_values = [5, 2]: 0 <= low <= high, 1 <= high <= 4095"),
        (values("{ constant = 0 }"), "problem.false_values.constant = 0: a whole number from 1 to 4095"),
        (values("{ weights = [1, nan] }"), "problem.false_values.weights = nan: a number from 0 to"),
        (values("{ weights = [1, 0] }"), "problem.false_values.weights = [1, 0]: 2 to 4096 of them, not all"),
        (values("19"), "problem.false_values = 19: { uniform = [low, high] }"),
        (law("{ histogram = [0, 0] }"), "problem.sc_pdf.histogram = 2 bars: does not integrate: at least one bar"),
        (law("{ histogram = [1, -1] }"), "problem.sc_pdf.histogram bar 2 = -1: a number of at least 0"),
        (law("{ normal = { variance = nan } }"), "problem.sc_pdf.normal.variance = nan: a number above 0, at most 1e6"),
        (law("{ normal = { mean = 0.5 } }"), "problem.sc_pdf = {'normal': {'mean': 0.5}}: "),
        (law("{ beta = [0, 1] }"), "problem.sc_pdf.beta.alpha = 0: a number above 0, at most 1e5"),
        (law('"gauss"'), 'problem.sc_pdf = gauss: "uniform", { normal = '),
        (law('{ records = { path = "none.csv" } }'), "problem.sc_pdf.records.path = none.csv: a file that exists"),
        (law("{ records = { path = 3 } }"), "problem.sc_pdf.records.path = 3: a text that is not empty"),
        (law('{ records = { path = "past.csv" } }'), "problem.sc_pdf.records.successes in line 3 = 5: at most the 4 "),
        (law('{ records = { path = "claims.csv" } }'), "problem.sc_pdf.records.successes = successes: no such column;"),
        (law('{ records = { file = "past.csv" } }'), "problem.sc_pdf.records = {'file': 'past.csv'}: a table { path"),
        (table("none.csv"), "problem.path = none.csv: a file that exists"),
        (table("empty.csv"), "problem.path = empty.csv: a table with at least one row"),
        (table("header.csv"), "problem.path = header.csv: a table with at least one row"),
        (table("latin.csv"), "problem.path = latin.csv: a CSV file in UTF-8, or an SQLite database"),
        (table("torn.db"), "problem.path = torn.db: an SQLite database that can be read"),
        (table("folder"), "problem.path = folder: a file that can be read (Is a directory)"),
        (table("flat.csv"), "problem.value = time: at least one entity with two different values"),
        (table(entity="train"), "problem.entity = train: no such column; there are flight, time"),
        (table(value="Time"), "problem.value = Time: no such column; there are flight, time"),
        (table() + 'table = "t"', "problem.table = t: only for an SQLite database, and this is a CSV file"),
        (table() + 'normalise = "lower"', "problem.normalise = lower: one of none, casefold"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "tune"])
def test_problem(refused: Callable[..., str], problem: str, line: str, verb: str) -> None:
    assert refused(problem, verb=verb).startswith(line)


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ('kind = "best"', "policy.kind = best: one of known-sc, random, greedy, epsilon-greedy, ee, index"),
        (EE + "greed = 1", "policy.ee.greed = 1: no such key; there are t, q, tuning, delta, early_stopping"),
        ('kind = "random"\nepsilon = 1', "policy.random.epsilon = 1: no such key; there are none"),
        ('kind = "epsilon-greedy"\nepsilon = 1.5', "policy.epsilon-greedy.epsilon = 1.5: a number from 0 to 1"),
        ('kind = "epsilon-greedy"\nepsilon = [0.1, nan]', "policy.epsilon-greedy.epsilon = nan: a number from 0 to 1"),
        ('kind = "epsilon-greedy"\nepsilon = []', "policy.epsilon-greedy.epsilon = []: a value, or a list of at least"),
        (EE + "t = 3\nq = -0.1", "policy.ee.q = -0.1: a number from 0 to 1"),
        (EE + "t = 3\nq = nan", "policy.ee.q = nan: a number from 0 to 1"),
        (EE + "t = 0\nq = 0.5", "policy.ee.t = 0: a whole number from 1 to 1048576"),
        (EE + "t = 3", "policy.ee.q = missing: to be given together with t, or neither"),
        (EE + "q = 0.5", "policy.ee.t = missing: to be given together with q, or neither"),
        (EE + "delta = 0", "policy.ee.delta = 0: a number from 0.0001 to 1"),
        (EE + 'tuning = "best"', "policy.ee.tuning = best: one of lemma3, exact"),
        (EE + "early_stopping = 1", "policy.ee.early_stopping = 1: true or false"),
        (EE + "\n[[policy]]\n" + EE, "policy = ee, budget 10, tuning exact, t 3, q 0.667: each configuration once"),
    ],
)
def test_policy(refused: Callable[..., str], policy: str, line: str) -> None:
    assert refused(SYNTHETIC + "budget = 10", policy).startswith(line)


@pytest.mark.parametrize(
    ("swept", "line"),
    [
        ("budget = [10, 0]", "sweep.budget = 0: a whole number from 1 to 2147483647"),
        ("budget = []", "sweep.budget = []: a list of at least one value"),
        ("budget = [10]\nsize = [1]", "sweep.size = [1]: a parameter of the problem: budget, entities"),
        ('budget = [10]\nsc_pdf = ["uniform", { beta = [0, 1] }]', "sweep.sc_pdf.beta.alpha = 0: a number above 0"),
        ("budget = [10]\nfalse_values = [{ uniform = [5, 2] }]", "sweep.false_values = [5, 2]: 0 <= low <= high"),
    ],
)
def test_sweep(refused: Callable[..., str], swept: str, line: str) -> None:
    assert refused(SYNTHETIC, f"{EE}\n[sweep]\n{swept}\n").startswith(line)


def bernoulli(more: str = "", n: str = "n = 5\n", k: str = "2", budget: int = 50) -> str:
    return f'kind = "topk/bernoulli"\n{n}K = {k}\nbudget = {budget}\n{more}'


def replayed(path: str, more: str = "") -> str:
    return f'kind = "topk/replay"\nK = 1\nbudget = 50\npath = "{path}"\n{more}'


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (bernoulli(k="0"), "problem.K = 0: a whole number from 1 to 524288"),
        (bernoulli(k="6"), "problem.K = 6: a whole number from 1 to 5, the number of arms"),
        (bernoulli(k="2.5"), "problem.K = 2.5: a whole number from 1 to 524288"),
        (bernoulli(k="3", n="", more="means = { list = [0.5, 0.6] }"), "problem.K = 3: a whole number from 1 to 2"),
        (bernoulli(n=""), "problem.n = missing: how many arms, a whole number"),
        (bernoulli(n="n = 0\n"), "problem.n = 0: a whole number from 1 to 524288"),
        (bernoulli("means = { list = [0.5, 0.6] }"), "problem.n = 5: 2, as many as the list or table has arms"),
        (bernoulli("budget_ = 1"), "problem.budget_ = 1: no such key; there are K, budget, n, means"),
        (bernoulli(budget=-1), "problem.budget = -1: a whole number from 0 to 536870912"),
        (bernoulli("means = { list = [0.5, 1.2] }", n=""), "problem.means[1] = 1.2: a mean from 0 to 1"),
        (bernoulli("means = { list = [0.5, -0.1] }", n=""), "problem.means[1] = -0.1: a mean from 0 to 1"),
        (bernoulli("means = { list = [0.5, nan] }", n=""), "problem.means.list[1] = nan: a number from"),
        (bernoulli("means = { two = [1.5, 0.5] }"), "problem.means[0] = 1.5: a mean from 0 to 1"),
        (bernoulli("means = { two = { means = [0.6, 0.5], count = 9 } }"), "problem.means.two.count = 9: at most n"),
        (bernoulli("means = { two = [0.6] }"), "problem.means.two = [0.6]: two means, or { means = [0.6, 0.5]"),
        (bernoulli('means = "gauss"'), 'problem.means = gauss: "uniform", { normal = '),
        (bernoulli('means = { table = { path = "arms.csv" } }', n=""),
         "problem.means.table.trials in line 3 = 4: at least the 5 successes"),
        (bernoulli('means = { table = { path = "half.csv", arm = "who" } }', n=""),
         "problem.means.table.arm = who: no such column; there are worker, successes, trials"),
        (bernoulli('means = { table = { path = "none.csv" } }', n=""),
         "problem.means.table.path = none.csv: a file that exists"),
        (replayed("arms.csv"), "problem.trials in line 3 = 4: at least the 5 successes"),
        (replayed("idle.csv"), "problem.trials in line 3 = 0: at least one trial"),
        (replayed("half.csv"), "problem.successes in line 2 = 3.5: a whole number from 0 to 2147483647"),
        (replayed("past.csv", 'trials = "tries"'), "problem.trials = tries: no such column; there are successes"),
        *((replayed("rewards.csv", f'reward = "reward"\n{name} = "{name}"'),
           f"problem.{name} = {name}: left out where reward is given: a table has rewards, or successes and trials")
          for name in ("successes", "trials")),
        (replayed("rewards.csv", 'reward = "reward"'), "problem.reward in line 3 = nan: a finite number"),
        (replayed("gap.csv", 'reward = "reward"'),
         "problem.reward in line 3 = empty: a finite number; delete the row of a reward that is missing"),
        (replayed("python.csv", 'reward = "reward"'), "problem.reward in line 3 = 1_0: a finite number"),
        (replayed("arabic.csv", 'reward = "reward"'), "problem.reward in line 2 = ٣: a finite number"),
        *((replayed(f"{name}.csv", 'reward = "reward"'), f"problem.records = from {found}: numbers that 32-bit")
          for name, found in (("times", "1700000000 to 1700000007"), ("huge", "2 to 1e+39"),
                              ("tiny", "1e-50 to 3e-50"))),
        ('kind = "topk/gaussian"\nK = 1\nbudget = 9\nmeans = { list = [1e9, 1000000001] }',
         "problem.means = from 1000000000 to 1000000001: numbers that 32-bit floats tell apart"),
        ('kind = "topk/gaussian"\nK = 1\nbudget = 9\nmeans = { list = [8388608, 8388609] }',
         "problem.means = from 8388608 to 8388609: numbers that 32-bit floats tell apart"),
        (replayed("vast.csv", 'reward = "reward"'), "problem.records = from 1e+37 to 2e+37: numbers that 32-bit"),
        ('kind = "topk/bounded"\nn = 2\nK = 1\nbudget = 16777217', "budget = 16777217: at most 16777216 where rewards"),
        ('kind = "topk/bounded"\nn = 2\nK = 1\nbudget = 9\nmeans = { list = [0.5, 1.01] }',
         "problem.means[1] = 1.01: a mean from 0 to 1"),
        ('kind = "topk/gaussian"\nn = 2\nK = 1\nbudget = 9\nsd = 0', "problem.sd = 0: a number from 1e-06 to 1e+06"),
    ],
)  # fmt: skip
def test_top_k_problem(refused: Callable[..., str], problem: str, line: str) -> None:
    assert refused(problem, 'kind = "optmai"\n').startswith(line)


@pytest.mark.parametrize(
    ("policy", "budget", "line"),
    [
        ('kind = "uniform"', 4, "problem.budget = 4: at least 5 for uniform, a pull for each arm"),
        ('kind = "sar"', 4, "problem.budget = 4: at least 5 for sar, a pull for each arm"),
        ('kind = "lucb"', 4, "problem.budget = 4: at least 5 for lucb, a pull for each arm"),
        ('kind = "lucb-stop"', 4, "problem.budget = 4: at least 5 for lucb-stop, a pull for each arm"),
        ('kind = "kl-lucb"', 4, "problem.budget = 4: at least 5 for kl-lucb, a pull for each arm"),
        (
            'kind = "optmai"\nbeta = 0.75',
            50,
            "policy.optmai.beta = 0.75: a number above 0.75 and below 1",
        ),
        ('kind = "optmai"\nbeta = 1', 50, 'policy.optmai.beta = 1: a number above 0.75 and below 1, or "printed"'),
        ('kind = "optmai"\nbeta = [0.8, nan]', 50, "policy.optmai.beta = nan: a number above 0.75 and below 1"),
        ('kind = "optmai"\nbeta = "print"', 50, "policy.optmai.beta = print: a number above 0.75 and below 1"),
        ('kind = "optmai-printed"\nbeta = 0.8', 50, "policy.optmai-printed.beta = 0.8: no such key; there are shares"),
        ('kind = "lucb"\ndelta = 1', 50, "policy.lucb.delta = 1: a number from 1e-09 to 0.999999"),
        ('kind = "lucb"\nodd = "both"', 50, "policy.lucb.odd = both: one of weak, strong, skip"),
        ('kind = "best"', 50, "policy.kind = best: one of uniform, optmai, optmai-printed, sar, lucb, lucb-stop, "),
    ],
)
def test_top_k_policy(refused: Callable[..., str], policy: str, budget: int, line: str) -> None:
    assert refused(bernoulli(budget=budget), policy).startswith(line)


def test_top_k_sweep(refused: Callable[..., str]) -> None:
    sar = 'kind = "sar"\n[sweep]\n'
    line = refused(bernoulli().replace("budget = 50\n", ""), sar + "budget = [50, 4]")
    assert line.startswith("problem.budget = 4: at least 5 for sar")
    line = refused(bernoulli().replace("K = 2\n", ""), sar + "K = [2, 6]")
    assert line.startswith("problem.K = 6: a whole number from 1 to 5")
    line = refused(bernoulli(), 'kind = "optmai"\n', head="runs = 3\ncheckpoints = [10]\n")
    assert line == "checkpoints = [10]: none, as optmai cannot be recorded on its way: sweep the budget"


def test_head(refused: Callable[..., str]) -> None:
    problem = SYNTHETIC + "budget = 10"
    assert refused(problem, head="").startswith("runs = missing: a whole number from 1 to 2147483647")
    assert refused(problem, head="runs = 0").startswith("runs = 0: a whole number from 1")
    assert refused(problem, head='runs = "20"').startswith('runs = "20": a whole number from 1')
    assert refused(problem, head="runs = 1\nseed = -1").startswith("seed = -1: a whole number from 0 to 4294967295")
    assert refused(problem, head="runs = 1\nrun = 1").startswith("run = 1: no such key; there are seed, runs, problem")
    assert refused(problem + "\nsc_pdf = 1979-05-27").startswith(
        "problem.sc_pdf = datetime.date(1979, 5, 27): a number"
    )
    assert refused(problem, head="runs = ").startswith("STUDY = study.toml: a TOML file (")


def test_what_policies_cannot_do(refused: Callable[..., str]) -> None:
    line = refused(values("{ constant = 300 }"), 'kind = "index"\n')
    assert line == "policy.kind = index with up to 300 false values: at most 256 an entity"
    line = refused(values("{ constant = 4000 }"))
    assert line.startswith("policy.ee.t = missing: to be given, with q: tuning tries each t up to 1024")


def test_a_folder_with_another_study(
    refused: Callable[..., str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = folder / "first.toml"
    first.write_text(f"runs = 2\n[problem]\n{SYNTHETIC}budget = 3\nentities = 9\n[[policy]]\n{EE}t = 1\nq = 0.5\n")
    assert cli.main(["run", str(first), "--out", str(folder / "out")]) == 0
    capsys.readouterr()
    for verb, why in (
        ("run", "one of this study or a part of it; problem.budget differs in the study it holds"),
        ("tune", "one that holds this study; it holds something else"),
    ):
        line = refused(SYNTHETIC + "budget = 10", verb=verb)
        assert line == f"--out = out: a new or empty folder, or {why}"


@pytest.mark.parametrize(
    ("parse", "given", "line"),
    [
        (flag, "true", 'x = "true": true or false'),
        (flag, 1, "x = 1: true or false"),
        (whole(1, 9), "true", 'x = "true": a whole number from 1 to 9'),
        (whole(1, 9), True, "x = True: a whole number from 1 to 9"),
        (between(0, 1), "0.5", 'x = "0.5": a number above 0, below 1'),
        (real(0, 1), "inf", 'x = "inf": a number from 0 to 1'),
    ],
)
def test_a_text_is_told_from_what_it_reads_as(parse: Any, given: object, line: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(line)}$"):
        parse("x", given)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_study_file_in_another_encoding(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes("runs = 1  # für alle".encode(encoding))
    with pytest.raises(BadInput, match=r"study\.toml: a TOML file in UTF-8$"):
        load(path)


def synthetic(**changes: Any) -> Any:
    given = {"false_values": cleaning.uniform_false_values(0, 9), "sc_pdf": cleaning.Uniform()} | changes
    return cleaning.synthetic(budget=500, entities=2_000, **given)


def twelve_arms() -> Any:
    problem = {"kind": "outliers/synthetic", "n": 12, "budget": 100}
    (one,) = Study.of({"runs": 1, "problem": problem, "policy": [{"kind": "gold"}]}).configurations()
    return one.problem


def table_of(sc_probabilities: Any) -> Any:
    return cleaning.of_table(budget=5, false_values=np.array([4, 3]), sc_probabilities=sc_probabilities)


def index_of(false_values: Any) -> Any:
    return cleaning.index(budget=500, entities=2_000, false_values=false_values, sc_pdf=cleaning.Uniform())


def cleaning_trained(score: Any) -> Any:
    weights = cleaning.uniform_false_values(0, 3)
    return cleaning.trained(score, budget=100, entities=1_000, false_values=weights, sc_pdf=cleaning.Uniform())


def ten_arms() -> Any:
    return arms(100, given([0.5] * 10, shuffled=True), Bernoulli())


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: synthetic(sc_pdf="uniform"), "sc_pdf = uniform: a law, such as cleaning.Uniform()"),
        (
            lambda: synthetic(false_values={"uniform": [0, 19]}),
            "false_values = {'uniform': [0, 19]}: 2 to 4096",
        ),
        (lambda: cleaning.uniform_false_values(0.5, 9), "false_values = [0.5, 9]: 0 <= low <= high, 1 <="),  # type: ignore[arg-type]
        (
            lambda: cleaning.Mixture((1, 1), (cleaning.Uniform(), cleaning.Beta(1, 2))),  # type: ignore[arg-type]
            "mixture = Uniform(): beta laws, as Beta(2, 5)",
        ),
        (
            lambda: simulate(synthetic(), topk.uniform(3), runs=2),
            "policy = Uniform, a policy of topk: one for",
        ),
        (lambda: check(ten_arms(), cleaning.ee(3, 0.5)), "policy = EE, a policy of cleaning: one for"),
        (
            lambda: simulate(ten_arms(), topk.uniform(11), runs=2),
            "policy Uniform.want = 11: a whole number from 1",
        ),
        (
            lambda: simulate(ten_arms(), topk.trained(11, topk.shipped_score()), runs=2),
            "policy Trained.want = 11: a whole",
        ),
        (lambda: topk.trained(0, topk.shipped_score()), "want = 0: a whole number from 1"),
        (lambda: topk.trained(1, cleaning.shipped_score()), "score = of cleaning: one of topk, such as topk.shipped"),
        (lambda: cleaning_trained("mine"), "score = mine: one of cleaning, such as cleaning.shipped_score()"),
        (lambda: outliers.rr(None), "interval = None: what outliers.interval("),  # type: ignore[arg-type]
        (lambda: outliers.gold(2.5, 50), "interval = 2.5: what outliers.interval("),  # type: ignore[arg-type]
        *(
            (lambda rule=rule: rule(outliers.interval("bounded", delta=0.1)), "interval.k = None: a number above 0")
            for rule in (outliers.rr, outliers.nrr, outliers.ib, functools.partial(outliers.wrr, rho=2))
        ),
        *(
            (
                lambda made=made: simulate(ten_arms(), made(11, 2, 50), runs=2),
                " = a rule for 11 arms: one that is made for",
            )
            for made in (topk.optmai, topk.sar, topk.sequential_halving)
        ),
        (
            lambda: simulate(twelve_arms(), outliers.gold(outliers.interval("bounded", delta=0.1), 50), runs=2),
            "policy GOLD = a rule for 50 arms: one that is made for the problem's 12 arms",
        ),
        (
            lambda: simulate(synthetic(), index_of(cleaning.uniform_false_values(0, 8)), runs=2),
            "policy Index = a rule for up to 8 false values an entity: one that is made for this problem's, up to 9",
        ),
        (
            lambda: simulate(table_of([0.5, 0.7]), index_of(np.bincount([1, 3])), runs=2, implementation="reference"),
            "policy Index = a rule for up to 3 false values an entity: one that is made for this problem's, up to 4",
        ),
        (lambda: cleaning.Histogram(3), "histogram bars = 3: several numbers"),  # type: ignore[arg-type]
        (lambda: cleaning.Histogram((1, "a")), "histogram bar 2 = a: a number of at least 0"),  # type: ignore[arg-type]
        (lambda: cleaning.Mixture(1, ()), "mixture weights = 1: several numbers"),  # type: ignore[arg-type]
        (lambda: table_of(["high"]), "sc_probabilities = ['high']: 2 numbers from 0 to 1"),
        (lambda: table_of([0.5, 1.5]), "sc_probabilities = [0.5, 1.5]: 2 numbers from 0 to 1"),
        (lambda: simulate(ten_arms(), topk.lucb(11), runs=2), "policy Lucb.want = 11: a whole number from 1"),
        (
            lambda: simulate(ten_arms(), topk.sar(20, 2, 100), runs=2),
            "policy Sar = a rule for 20 arms: one that",
        ),
        (lambda: check(ten_arms(), topk.optmai(10, 2, 1_000)), "policy OptMAI = a rule that makes 807 pulls: one that"),
        *(
            (
                lambda made=made, way=way: simulate(ten_arms(), made(10, 2, 1_000), runs=2, implementation=way),
                "pulls: one that is made for the problem's budget, 100, and its number of arms, 10",
            )
            for made in (topk.optmai, topk.sar, topk.sequential_halving)
            for way in ("fast", "reference")
        ),
    ],
)
def test_from_python(call: Callable[[], Any], line: str) -> None:
    """What fits no problem, or not this one."""
    with pytest.raises(BadInput, match=re.escape(line)):
        call()


@pytest.mark.parametrize("weights", [cleaning.uniform_false_values(0, 9), np.array([0.0, 1, 2, 0, 1e-12, 0, 0])])
def test_a_rule_for_more_false_values_suits_as_well(weights: np.ndarray) -> None:
    """Also where the problem's last kinds have no weight, or too little for a word."""
    problem = synthetic(false_values=weights)
    for made in (weights, cleaning.uniform_false_values(0, 12)):
        assert type(accelerated(index_of(made), problem)).__name__ == "IndexByLists"


def test_numbers_may_be_numpys() -> None:
    low, high = np.array([0, 9])
    assert cleaning.uniform_false_values(low, high).tolist() == [1.0] * 10
    assert topk.sample_size(np.int64(100), np.int32(10), np.float32(0.5), 0.1) == topk.sample_size(100, 10, 0.5, 0.1)
    assert outliers.rho_star(np.int64(50), np.float64(2.5), 0.1) == outliers.rho_star(50, 2.5, 0.1)
    assert cleaning.tune(CELLS, WEIGHTS, np.float32(0.1)) == cleaning.tune(CELLS, WEIGHTS, 0.1)
    removed = cleaning.expected_removed(np.int64(9), np.int32(3), np.float64(2), CELLS, WEIGHTS)
    assert removed.mean.tolist() == cleaning.expected_removed(9, 3, 2, CELLS, WEIGHTS).mean.tolist()


CELLS, WEIGHTS = cleaning.Uniform().cells(0.1), cleaning.uniform_false_values(0, 9) / 10


@pytest.mark.parametrize(
    ("function", "given", "line"),
    [
        (cleaning.expected_removed, (9, 2.5, 1, CELLS, WEIGHTS), "t = 2.5: whole numbers of at least 1"),
        (cleaning.expected_removed, (9, 3, [1, 4], CELLS, WEIGHTS), "need = [1, 4]: whole numbers from 0 to t"),
        (cleaning.expected_removed, (9, [1, 2, 3], [1, 1], CELLS, WEIGHTS), "t, need, cells, false_values, entities"),
        (cleaning.expected_removed, (None, 3, 2, CELLS, WEIGHTS), "budget = None: a whole number from 0"),
        (cleaning.expected_removed, (9, 3, 2, "flat", WEIGHTS), "cells = flat: probabilities that sum to 1"),
        (cleaning.expected_removed_of_table, (9, 3, 2, CELLS, None), "false_values = None: a list of whole numbers"),
        (cleaning.expected_removed_of_table, (9, 3, 2, CELLS, [1, -1]), "false_values = [1, -1]: a list of whole"),
        (cleaning.expected_removed_of_table, (9, 3, 2, CELLS, []), "false_values = []: a list of whole numbers"),
        (cleaning.gamma_exact, (CELLS, WEIGHTS, "4"), 't_max = "4": a whole number from 1'),
        (cleaning.tune, (CELLS, WEIGHTS, None), "delta = None: a number in (0, 1]"),
        (cleaning.stopping_index, ({}, 9), "cells = {}: probabilities"),
        (cleaning.ambiguity, ("claims.csv", None, "time"), "entity = [None]: one column or more, each once"),
        (outliers.rho_star, (0, 2.5, 0.1), "n = 0: a whole number from 1"),
        (outliers.rho_star, (50, -1, 0.1), "k = -1: a number above 0"),
        (outliers.rho_star, (50, 2.5, "low"), "delta = low: a number above 0, below 1"),
        (outliers.plan, ("arms",), "problem = arms: a table as in a study file"),
        (topk.lower_bound, (None, 10, 0.01, 0.01), "arms = None: a whole number of at least 1"),
        (topk.lower_bound, (100, 10, "0.01", 0.01), 'epsilon = "0.01": a number above 0, at most 0.01'),
        (topk.sample_size, (100, 101, 0.1, 0.1), "want = 101: a whole number from 1 to 100"),
        (extraction.extraction, (None, 10), "domain = None: what extraction.domain returns"),
        (register_policy, (["topk"],), "register_policy.family = ['topk']: one of cleaning"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(function: Callable[..., Any], given: tuple[Any, ...], line: str) -> None:
    with pytest.raises(BadInput, match=re.escape(line)):
        function(*given)
