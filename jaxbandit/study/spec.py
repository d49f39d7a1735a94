"""A study: which policies run on which problems, how often. Read from TOML or a mapping, checked field by field.

    seed = 0                        # 0 where left out
    runs = 2000
    [problem]
    kind = "cleaning/synthetic"     # family/problem; its other keys are the problem's parameters
    entities = 50_000
    [[policy]]
    kind = "epsilon-greedy"
    epsilon = [0.1, 0.3, 0.5]       # a list is swept
    [sweep]
    budget = [2_000, 10_000]        # lists of values of the problem's parameters

More keys stand at the top, with ``seed`` and ``runs``. ``checkpoints = [1_000, 5_000]``: budgets below the
problem's, at which each run is recorded as well; the rows are those of runs with that budget. ``stop_when``: see
``enough.py``; ``runs`` is then the most. ``implementation = "reference"`` runs each policy as it is written, and not
its fast implementation (see ``simulate``).

The configurations are every combination of the sweep, times each policy, times every combination of its own lists.
Swept parameters take the order in which the problem or the policy declares them, the last one changing fastest.

A key ``path`` of the problem, at any depth, names an input file, relative to the folder of the study file. Results
know it by its content, not by its name. So does a policy's key ``path``.
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_args

from jaxbandit.describe import brief
from jaxbandit.devices import use_all_cores
from jaxbandit.errors import BadInput
from jaxbandit.grammar import Implementation, Policy, Problem
from jaxbandit.registry import Family, ProblemKind, Question, one_of, parse, whole, without_kind
from jaxbandit.study import keys
from jaxbandit.study.enough import StopWhen
from jaxbandit.study.keys import apart, beside, check, content, declared, named, once, paths, reported, without_retired
from jaxbandit.study.plugins import lookup
from jaxbandit.study.summary import identity, plain, show, unmistakably
from jaxbandit.words import counted

MAX_RUNS, MAX_SEED = 2**31 - 1, 2**32 - 1


@dataclass(frozen=True)
class Configuration:
    """Holds one policy on one problem, with the parameters that tell it apart.

    Attributes:
        name: the policy's kind.
        params: JSON-ready, they tell it from the others of its study.
        label: the policy with the parameters that the study gives it, as ``ee t=3 q=0.667``.
        own: those parameters.
        point: the values of the swept parameters of the problem, JSON-ready.
        anytime: whether the policy ignores how large its budget is, until it is spent.
    """

    family: Family
    setting: Any
    problem: Problem
    policy: Policy
    name: str
    params: dict[str, Any]
    label: str
    own: dict[str, Any]
    point: dict[str, Any]
    anytime: bool

    __repr__ = brief


@dataclass(frozen=True)
class Study:
    """Describes a checked study: see the head of this module. ``load`` and ``Study.of`` make it.

    Attributes:
        seed: 0 to 2^32 - 1.
        runs: runs of each configuration, 1 to 2^31 - 1.
        problem, policies: tables of ``kind`` and parameters.
        sweep: lists of values, by parameter of the problem.
        labels: params to report in every row beside its own.
        checkpoints: budgets at which each run is recorded on its way; ascending, below the problem's.
        stop_when: when the runs are enough; None for all of ``runs``.
        family: the family of the problem.
        tune: how ``jaxbandit tune`` searches, see ``jaxbandit.tuning``; None where that is not said. ``run`` leaves it
            aside.
        train: how ``jaxbandit train`` trains a policy, likewise.
        implementation: of the policies, see ``simulate``.

    Example:
        >>> import jaxbandit
        >>> study = jaxbandit.Study.of(
        ...     {
        ...         "runs": 50,
        ...         "problem": {"kind": "cleaning/synthetic", "entities": 1_000, "budget": 100},
        ...         "policy": [{"kind": "ee", "t": [2, 3], "q": 0.667}],
        ...     }
        ... )
        >>> study
        Study(cleaning/synthetic; ee; 50 runs, seed 0)
        >>> len(study.configurations())
        2
    """

    seed: int
    runs: int
    problem: Mapping[str, Any]
    policies: Sequence[Mapping[str, Any]]
    sweep: Mapping[str, Sequence[Any]]
    labels: Mapping[str, Any]
    checkpoints: Sequence[float]
    stop_when: StopWhen | None
    family: Family
    tune: Mapping[str, Any] | None = None
    implementation: Implementation = "fast"
    train: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(policy["kind"] for policy in self.policies))
        sweep = "".join(f", {name}: {counted(len(values), 'value', 'values')}" for name, values in self.sweep.items())
        return f"Study({self.problem['kind']}{sweep}; {names}; {counted(self.runs, 'run', 'runs')}, seed {self.seed})"

    @classmethod
    def of(
        cls,
        mapping: Mapping[str, Any],
        *,
        base: Path | None = None,
        labels: Mapping[str, Any] | None = None,
        family: Family | None = None,
        counted: bool = True,
    ) -> "Study":
        """Makes the study that ``mapping`` describes, with the keys of a study file.

        Args:
            mapping: as ``tomllib`` would read it; NumPy values and tuples are taken too.
            base: the folder that paths in it are relative to; the current one where None.
            labels: params to report in every row, to tell this study's rows from another's.
            family: the family that ``problem.kind`` is of, where it is not a registered one.
            counted: whether ``runs`` must be given, as ``run`` needs it and ``tune`` and ``plan`` do not.

        Raises:
            BadInput: naming the first key that is wrong.
        """
        keys = (
            "seed", "runs", "problem", "policy", "sweep", "checkpoints", "stop_when", "implementation", "tune", "train",
        )  # fmt: skip
        if not isinstance(mapping, Mapping):
            raise BadInput("study", mapping, "a table with the keys of a study file; load_study reads such a file")
        given = {key: plain(key, value, nulls=False) for key, value in mapping.items()}
        for key, value in given.items():
            if key not in keys:
                raise BadInput(key, value, f"no such key; there are {', '.join(keys)}")
        seed = whole(0, MAX_SEED)("seed", given.get("seed", 0))
        uncounted = "runs" not in given and ({"tune", "train"} & set(given) or not counted)
        runs = 0 if uncounted else whole(1, MAX_RUNS)("runs", given.get("runs", "missing"))
        words = get_args(Implementation)
        implementation = cast(Implementation, one_of(*words)("implementation", given.get("implementation", words[0])))
        problem, sweep, policies = (
            given.get("problem", "missing"),
            given.get("sweep", {}),
            given.get("policy", "missing"),
        )
        for name, table in (("problem", problem), ("sweep", sweep), ("tune", given.get("tune", {})),
                            ("train", given.get("train", {}))):  # fmt: skip
            if not isinstance(table, dict):
                raise BadInput(name, table, f"a table, [{name}]")
        if not isinstance(policies, list) or not policies or not all(isinstance(policy, dict) for policy in policies):
            raise BadInput("policy", policies, "at least one table, [[policy]]")
        use_all_cores()  # before the problems make arrays
        folder = (base or Path()).absolute()

        def found(field: str, path: str) -> str:
            if not (folder / path).exists():
                raise BadInput(field, path, f"a file that exists, seen from {folder}")
            return str(folder / path)

        problem, sweep = paths("problem", problem, found), paths("sweep", sweep, found)
        if family is None:  # objects may take a text of that name
            policies = paths("policy", policies, found)
        if family is None:
            family, kind = lookup("problem.kind", problem.get("kind", "missing"))
            family = replace(family, metrics=(*family.metrics, *kind.metrics))
        policies = without_retired(policies, family)
        study = cls(
            seed, runs, problem, policies, sweep, plain("labels", dict(labels or {})), given.get("checkpoints", []),
            None, family, given.get("tune"), implementation, given.get("train", {}),
        )  # fmt: skip
        check(study)
        if "stop_when" not in given:
            return study
        rule = StopWhen.of(given["stop_when"], [metric.name for metric in family.metrics], study.policy_labels)
        study = replace(study, stop_when=rule)
        return study if uncounted else study.with_runs(runs)

    def with_runs(self, runs: int, field: str = "runs") -> "Study":
        """Returns the study with another number of runs, which ``field`` gives.

        Raises:
            BadInput: for a number that a study cannot have.
        """
        whole(1, MAX_RUNS)(field, runs)
        if self.stop_when is not None and runs < 2:
            raise BadInput(field, runs, "at least 2 where stop_when is given")
        return replace(self, runs=runs)

    def canonical(self) -> dict[str, Any]:
        """Returns all that the study's results depend on, JSON-ready; input files are in it by their SHA-256.

        Raises:
            BadInput: where an input file cannot be read.
        """
        return self.identity() | {
            "runs": self.runs, "policy": paths("policy", self.policies, content),
            "sweep": paths("sweep", self.sweep, content),
            "stop_when": asdict(self.stop_when) if self.stop_when else None,
        }  # fmt: skip

    def identity(self) -> dict[str, Any]:
        """Returns what may not change where a study is extended: all but how many runs, which policies and which swept
        values.

        Raises:
            BadInput: where an input file cannot be read.
        """
        kinds = {each["kind"]: self.family.policies[each["kind"]].fingerprint for each in self.policies}
        plugins = {name: fingerprint for name, fingerprint in kinds.items() if fingerprint}
        return {
            "seed": self.seed, "problem": paths("problem", self.problem, content), "sweep": sorted(self.sweep),
            "checkpoints": list(self.checkpoints), "labels": dict(self.labels), "family": self.family.fingerprint,
        } | ({"plugins": plugins} if plugins else {}) | self._slowly  # fmt: skip

    @property
    def _slowly(self) -> dict[str, str]:
        """Is empty for fast implementations: that is what all folders had that were begun before one could choose."""
        return {} if self.implementation == "fast" else {"implementation": self.implementation}

    def named(self) -> dict[str, Any]:
        """Returns the problem and the sweep as their user knows them, JSON-ready: input files by their names."""

        def name(_: str, path: str) -> str:
            return Path(path).name

        return {"problem": paths("problem", self.problem, name), "sweep": paths("sweep", self.sweep, name)}

    def label(self, policy: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        """Returns the name of a policy among the study's: its kind, with the parameters that it is given."""
        names = declared(self.family.policies[policy["kind"]].parameters, given)
        given = paths("policy", given, named)
        return " ".join([policy["kind"], *(f"{name}={unmistakably(given[name])}" for name in names)])

    @property
    def policy_labels(self) -> list[str]:
        """Returns the name of each policy, with each combination of its lists."""
        return [label for label, _ in self.policy_tables()]

    def policy_tables(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns each policy with each combination of its lists: its name, and the table that gives it alone."""
        return [
            (self.label(policy, own), {"kind": policy["kind"], **own})
            for policy in self.policies
            for own in self.choices(policy)
        ]

    @property
    def swept(self) -> list[str]:
        """Returns the params that take several values because the study says so: the budget where there are
        checkpoints, those of ``sweep`` in its order, and policies' lists. The first one of numbers is the x axis of the
        picture."""
        lists = [key if key not in self.sweep else apart(key) for each in self.policies for key in self.lists(each)]
        recorded = ["budget"] if self.checkpoints else []
        return list(dict.fromkeys([*recorded, *self.family.axes, *self.sweep, *lists]))

    @property
    def labels_of_axes(self) -> dict[str, str]:
        """Returns what stands at an axis, with its unit, by the name of the metric or the param."""
        of_policies = (self.family.policies[policy["kind"]].parameters for policy in self.policies)
        params = {each.name: each.label for some in (self.kind.parameters, *of_policies) for each in some if each.label}
        return params | {metric.name: metric.label for metric in self.family.metrics}

    def settings(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yields the problems as their user describes them, each with its params.

        Raises:
            BadInput: for parameters that do not go together.
        """
        kind, common = self.kind, self.family.common
        names = declared(kind.parameters, self.sweep)
        for values in itertools.product(*(self.sweep[name] for name in names)):
            given = without_kind(self.problem) | dict(zip(names, values, strict=True))
            parsed = parse("problem", kind.parameters, given)
            shown = {
                parameter.name: reported(parameter, given, parsed)
                for parameter in kind.parameters
                if parameter.name in names or parameter.name in common
            }
            yield kind.build(**parsed), {**self.labels, **shown}

    def configurations(self) -> list[Configuration]:
        """Returns every configuration, in order: the sweep, then the policies, then the policies' own lists.

        Raises:
            BadInput: for parameters that do not go together, and where two configurations are the same.
        """
        return self._configurations

    @cached_property
    def _configurations(self) -> list[Configuration]:
        found: dict[str, Configuration] = {}
        for setting, shared in self.settings():
            problem = setting.problem()
            keys.check_recorded(self, setting)
            for table in self.policies:
                kind = self.family.policies[table["kind"]]
                for given in self.choices(table):
                    made = self.configuration(setting, problem, shared, kind.name, given)
                    key = identity([kind.name, made.params])
                    if key in found:
                        raise BadInput("policy", f"{kind.name}, {show(made.params)}", "each configuration once")
                    found[key] = made
        return list(found.values())

    def configuration(
        self, setting: Any, problem: Problem, shared: Mapping[str, Any], name: str, given: Mapping[str, Any]
    ) -> Configuration:
        """Returns a policy of kind ``name`` with the parameters ``given``, on one of ``settings`` with its params
        ``shared``.

        Raises:
            BadInput: for parameters that do not go together.
        """
        kind = self.family.policies[name]
        parsed = parse(f"policy.{name}", kind.parameters, given)
        policy, report = kind.build(setting, **parsed)
        own = {p.name: reported(p, given, parsed) for p in kind.parameters if p.name in given}
        params = beside(shared, own, plain("params", dict(report)))
        return Configuration(
            self.family, setting, problem, policy, name, params, self.label({"kind": name}, given), own,
            {name: shared[name] for name in declared(self.kind.parameters, self.sweep)}, kind.anytime,
        )  # fmt: skip

    @property
    def question(self) -> Question | None:
        """Returns what the results are asked, if anything."""
        return self.kind.question or self.family.question

    @cached_property
    def kind(self) -> ProblemKind:
        """Returns the kind of the problem, its parameters parsed once."""
        name = self.problem.get("kind", "missing")
        known = {f"{self.family.name}/{each}": kind for each, kind in self.family.problems.items()}
        if not isinstance(name, str) or name not in known:
            raise BadInput("problem.kind", name, f"one of {', '.join(known)}")
        kind = known[name]
        return replace(kind, parameters=tuple(map(once, kind.parameters)))

    def lists(self, policy: Mapping[str, Any]) -> list[str]:
        """Returns the keys of a policy's table that are swept."""
        parameters = self.family.policies[policy["kind"]].parameters
        return [p.name for p in parameters if p.swept and isinstance(policy.get(p.name), list)]

    def choices(self, policy: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields what a policy's table gives, for each combination of its lists."""
        names = self.lists(policy)
        for values in itertools.product(*(policy[name] for name in names)):
            yield without_kind(policy) | dict(zip(names, values, strict=True))


def load(path: Path | str, counted: bool = True) -> Study:
    r"""Reads the study in a TOML file at ``path``. ``counted``: see ``Study.of``.

    Raises:
        BadInput: naming the file where it cannot be read or is no TOML, or else the first key that is wrong.

    Example:
        >>> import jaxbandit, tempfile
        >>> from pathlib import Path
        >>> file = Path(tempfile.mkdtemp()) / "study.toml"
        >>> problem = "problem = { kind = 'cleaning/synthetic', budget = 100 }"
        >>> lines = ["runs = 10", problem, "policy = [{ kind = 'ee' }]"]
        >>> _ = file.write_text("\n".join(lines))
        >>> jaxbandit.load_study(file)
        Study(cleaning/synthetic; ee; 10 runs, seed 0)
    """
    path = Path(path)
    try:
        mapping = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise BadInput("STUDY", str(path), f"a file that can be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise BadInput("STUDY", str(path), "a TOML file in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise BadInput("STUDY", str(path), f"a TOML file ({' '.join(str(error).split())})") from None
    return Study.of(mapping, base=path.parent, counted=counted)
