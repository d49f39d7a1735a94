"""The cleaning family by name: what study files, ``jaxbandit list`` and the papers' figures can ask for."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxbandit.cleaning import gamma
from jaxbandit.cleaning.claims import AmbiguityTable, ambiguity, read_records
from jaxbandit.cleaning.describe import describe
from jaxbandit.cleaning.ee import EE, ee
from jaxbandit.cleaning.epsilon_greedy import EpsilonGreedy, epsilon_greedy
from jaxbandit.cleaning.greedy import Greedy, greedy
from jaxbandit.cleaning.index import Index, index
from jaxbandit.cleaning.known_sc import known_sc
from jaxbandit.cleaning.problem import uniform_false_values
from jaxbandit.cleaning.random import Random, random
from jaxbandit.cleaning.setting import Setting
from jaxbandit.cleaning.stopping import DELTA, MOST_INDEXED, level_for_budget
from jaxbandit.cleaning.trained import STATISTICS, USUAL, load, policies, shipped
from jaxbandit.errors import BadInput, under
from jaxbandit.laws import Law, Uniform
from jaxbandit.laws import parse as parse_law
from jaxbandit.mixtures import fit_law
from jaxbandit.parameters import parameters
from jaxbandit.registry import (
    LEFT_OUT,
    Answers,
    Family,
    Metric,
    Parameter,
    PolicyKind,
    ProblemKind,
    Question,
    answered,
    flag,
    one_of,
    real,
    text,
    trained,
    whole,
)
from jaxbandit.scores import Score, Trainable
from jaxbandit.words import counted


def _sc_pdf(name: str, value: Any) -> Law:
    if isinstance(value, Mapping) and set(value) == {"records"}:
        with under(f"{name}.records"):
            return _fitted(value["records"])
    return parse_law(name, value)


def _fitted(records: Any) -> Law:
    keys = ("path", "successes", "attempts", "components")
    if not isinstance(records, Mapping) or "path" not in records or set(records) - set(keys):
        form = 'a table { path = "past.csv", successes = ..., attempts = ..., components = 1 }'
        raise BadInput("records", records, form)
    read = read_records(**{key: text(key, value) for key, value in records.items() if key != "components"})
    return fit_law(*read, records.get("components", 1))


def _false_values(name: str, value: Any) -> np.ndarray:
    forms = "{ uniform = [low, high] }, { constant = r } or { weights = [of 0, of 1, ...] }"
    if not isinstance(value, Mapping) or len(value) != 1:
        raise BadInput(name, value, forms)
    ((form, given),) = value.items()
    if form == "constant":
        return uniform_false_values(*[whole(1, 4095)(f"{name}.constant", given)] * 2)
    if form == "uniform" and isinstance(given, Sequence) and len(given) == 2:
        with under(name):
            return uniform_false_values(*given)
    if form == "weights" and isinstance(given, Sequence):
        weights = np.array([real(0, 1e300)(f"{name}.weights", weight) for weight in given])
        if not 2 <= weights.size <= 4096 or not weights[1:].any():
            raise BadInput(f"{name}.weights", list(given), "2 to 4096 of them, not all of r > 0 being 0")
        return weights
    raise BadInput(name, value, forms)


def _columns(name: str, value: Any) -> str | tuple[str, ...]:
    if isinstance(value, list) and value:
        return tuple(text(name, column) for column in value)
    return text(name, value)


_BUDGET = Parameter("budget", whole(1, 2**31 - 1), "units of cost, a whole number from 1 to 2147483647",
                    label="budget (cleaning operations)")  # fmt: skip
_SC_PDF = Parameter(
    "sc_pdf", _sc_pdf,
    'the distribution of sc-probabilities: "uniform", { normal = { mean = 0.5, variance = 0.3 } }, { beta = [2, 5] }, '
    '{ histogram = [1, 2, 1] }, or { records = { path = "past.csv" } } to fit a Beta to an agent\'s past',
    Uniform(),
)  # fmt: skip


def _synthetic(budget: int, entities: int, false_values: np.ndarray, sc_pdf: Law, paired: bool) -> Setting:
    return Setting(budget, entities, false_values, sc_pdf, paired=paired)


def _always(name: str, value: Any) -> bool:
    if value is not True:
        raise BadInput(name, value, "true for a table, whose entities are not alike")
    return value


@lru_cache(maxsize=16)
def _extracted(
    path: str, entity: Any, value: Any, table: str | None, normalise: str, _changed: float
) -> AmbiguityTable:
    return ambiguity(path, entity, value, table=table, normalise=normalise)


def _table(
    budget: int, path: str, entity: Any, value: Any, table: str | None, normalise: str, sc_pdf: Law, paired: bool
) -> Setting:
    with under("problem"):
        found = _extracted(path, entity, value, table, normalise, _modified(path))
    counts = np.bincount(found.false_values)
    return Setting(budget, len(found.false_values), counts.astype(np.float64), sc_pdf, found, paired)


def _share(setting: Setting, answers: Answers) -> np.ndarray:
    share: np.ndarray = answers["removed"] / float(_listed(setting).sum())
    return share


def _listed(setting: Setting) -> np.ndarray:
    assert setting.table is not None
    return setting.table.false_values


def _opening(setting: Setting) -> str:
    counts = _listed(setting)
    return (
        f"which policy, which budget? Of {counted(int(counts.sum()), 'false value', 'false values')} at "
        f"{counted(int(np.count_nonzero(counts)), 'ambiguous entity', 'ambiguous entities')} are removed"
    )


def _finishes(setting: Setting, means: Mapping[str, float]) -> str:
    mean, listed = means["finished"], int(np.count_nonzero(_listed(setting)))
    # Not all of them, where some run left one.
    places = next((places for places in range(9) if mean == listed or round(mean, places) < listed), 0)
    return f"finishes {mean:,.{places}f} of {counted(listed, 'entity', 'entities')}"


def _leaves(kind: str, params: Mapping[str, Any]) -> str:
    """Other policies, and ``ee`` with q = 0, stop when all is clean."""
    if kind != "ee" or params.get("q") == 0:
        return ""
    return (
        "{policy} gives entities up for good: it has met all of them after {spent} operations, and leaves the rest "
        "of a larger budget unspent"
    )


_QUESTION = Question(
    "share", _opening, "to remove {}", "a share of all false values, above 0 and at most 1, such as 0.9", "cleans",
    "operations",
    aside=_finishes,
    leaves=_leaves,
)  # fmt: skip


def _modified(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0


PROBLEMS = (
    ProblemKind(
        "synthetic", "entities drawn afresh in each run (section 6)",
        (
            _BUDGET,
            Parameter("entities", whole(1, 2**31 - 1), "how many, from 1 to 2147483647", 50_000),
            Parameter("false_values", _false_values, "the distribution of r: { uniform = [0, 19] }, { constant = 9 } "
                      "or { weights = [...] }", uniform_false_values(0, 19)),
            _SC_PDF,
            Parameter("paired", flag, "true: runs of one number meet the same entities under every policy; false: only "
                      "the laws of results are the same, and random, greedy and epsilon-greedy are faster", True),
        ), _synthetic,
    ),
    ProblemKind(
        "table", "the entities of a CSV or SQLite table of (entity, candidate value) rows",
        (
            _BUDGET,
            Parameter("path", text, "a CSV or SQLite file", swept=False),
            Parameter("entity", _columns, "the column that names the entity, or a list of columns", swept=False),
            Parameter("value", _columns, "the column of candidate values; a list makes an entity of each", swept=False),
            Parameter("table", text, "the table of a SQLite file", None, swept=False),
            Parameter("normalise", one_of("none", "casefold"), "how values are compared: none or casefold", "none"),
            _SC_PDF,
            Parameter("paired", _always, "always true: see `cleaning/synthetic`", True, swept=False),
        ), _table, (Metric("share", "share of all false values removed", _share, share=True),), _QUESTION,
    ),
)  # fmt: skip


def _ee(
    setting: Setting, t: int | None, q: float | None, tuning: str, delta: float, early_stopping: bool
) -> tuple[EE, dict[str, Any]]:
    if t is not None and q is not None:
        return ee(t, q, early_stopping), {"t": t, "q": q}
    objective: gamma.Objective = "exact" if tuning == "exact" else "lemma3"
    t, need, q, _ = setting.tuned(objective, delta, early_stopping)
    return EE(jnp.int32(t), jnp.int32(need), jnp.bool_(early_stopping)), {"tuning": tuning, "t": t, "q": q}


def _random(setting: Setting) -> tuple[Random, dict[str, Any]]:
    setting.remembered()
    return random(), {}


def _greedy(setting: Setting) -> tuple[Greedy, dict[str, Any]]:
    setting.remembered()
    return greedy(), {}


def _epsilon_greedy(setting: Setting, epsilon: float) -> tuple[EpsilonGreedy, dict[str, Any]]:
    setting.remembered()
    return epsilon_greedy(epsilon), {"epsilon": epsilon}


def _tabulated(setting: Setting, policy: str) -> None:
    """Refuses a problem that is too large for a policy with a table of all records."""
    setting.remembered()
    if (most := int(np.flatnonzero(setting.weights).max())) > MOST_INDEXED:
        raise BadInput("policy.kind", f"{policy} with up to {most} false values", f"at most {MOST_INDEXED} an entity")


def _index(setting: Setting) -> tuple[Index, dict[str, Any]]:
    _tabulated(setting, "index")
    rule = index(budget=setting.budget, entities=setting.entities, false_values=setting.weights, sc_pdf=setting.sc_pdf)
    return rule, {}


def _scored(setting: Setting, scores: Sequence[Score]) -> list[Index]:
    _tabulated(setting, "trained")
    given = {"budget": setting.budget, "entities": setting.entities}
    return policies(scores, **given, false_values=setting.weights, sc_pdf=setting.sc_pdf)


POLICIES = (
    PolicyKind(
        "known-sc", "knows every sc-probability: the reference (section 3.3)", (), lambda setting: (known_sc(), {}),
        anytime=True, reference=True,
    ),
    PolicyKind(
        "random", "an entity at random for each operation (section 4.1)", (),
        _random, anytime=True,
    ),
    PolicyKind(
        "greedy", "the highest success rate so far (section 4.2)", (), _greedy, anytime=True,
    ),
    PolicyKind(
        "epsilon-greedy", "greedy, but random with probability epsilon (section 4.3)",
        parameters(epsilon_greedy),
        _epsilon_greedy, anytime=True,
    ),
    PolicyKind(
        "ee", "explore each entity with t operations, exploit it if a share q succeeded (section 5)",
        (
            *parameters(ee, leave_out=("early_stopping",), t=None, q=None),
            Parameter("tuning", one_of("lemma3", "exact"), "what (t, q) maximise: Gamma as the paper prints it "
                      "(lemma3), or what is expected at the budget, of the entities that there are (exact)", "exact",
                      when={"t": LEFT_OUT}),
            Parameter("delta", real(1e-4, 1), "the grid of q and p in tuning (section 5.4), 0.0001 to 1; less where "
                      "many sc-probabilities are below it", DELTA,
                      on_request=True, when={"t": LEFT_OUT}),
            *parameters(ee, leave_out=("t", "q")),
        ), _ee, anytime=True,
    ),
    PolicyKind("index", "optimal stopping by record and false values left (beyond the paper)", (), _index),
    trained("by a trained score of record and false values left (docs/trained.md)", load, shipped, _scored),
)  # fmt: skip


def _effectiveness(setting: Setting, answers: Answers) -> np.ndarray:
    share: np.ndarray = answers["removed"] / float(setting.budget)
    return share


METRICS = (
    Metric("effectiveness", "cleaning effectiveness (false values removed / budget)", _effectiveness, share=True),
    Metric("removed", "false values removed", answered("removed")),
    Metric("cleans", "cleaning operations spent", answered("cleans")),
    Metric("finished", "entities finished", answered("finished")),
)


def tune(setting: Setting) -> list[dict[str, Any]]:
    """EE's parameters by either objective and what they are worth, and the level of ``index``, as summary rows.

    ``gamma``: false values removed per operation if entities never ran out, for lemma3 as the paper prints it, which
    leaves out that an exploration can stop early;
    ``effectiveness``: the expectation at the budget and with the entities that there are (``Setting.expected``);
    ``runs_out_at``: the operations with which every entity has been visited, in expectation. EE leaves what a budget
    has beyond them unspent.
    """
    rows: list[dict[str, Any]] = []

    def row(policy: str, params: dict[str, Any], metric: str, value: float) -> None:
        params = {"budget": setting.budget, **params}
        rows.append({"policy": policy, "params": params, "metric": metric, "mean": value,
                     "ci_low": value, "ci_high": value, "runs": 0})  # fmt: skip

    objectives: tuple[gamma.Objective, ...] = ("lemma3", "exact")
    for objective in objectives:
        t, need, q, value = setting.tuned(objective, DELTA, True)
        found = {"gamma": value, "effectiveness": setting.expected(t, need) / setting.budget,
                 "runs_out_at": setting.visits(t, need)[1]}  # fmt: skip
        for metric, number in found.items():
            row("ee", {"tuning": objective, "t": t, "q": q}, metric, number)
    level = level_for_budget(setting.sc_pdf.cells(DELTA), setting.distribution, setting.entities, setting.budget).level
    row("index", {}, "level", float(level))
    return rows


TUNE_TERMS = {
    "gamma": "false values removed per operation if entities never ran out; for lemma3, which makes it largest, as the "
    "paper prints it, without the operations that early stopping saves",
    "effectiveness": "the false values removed, as expected of the entities that there are, divided by the budget; "
    "exact makes it largest",
    "runs_out_at": "the operations after which ee has met every entity; it leaves what is beyond unspent",
    "level": "the index (false values per operation) of the last entities that policy index cleans within the budget",
}


def _described(setting: Setting) -> list[str]:
    if setting.table is not None:
        return describe(setting.table)
    mean = f"{float(setting.distribution @ np.arange(setting.distribution.size)):.4g}"
    return [
        f"{counted(setting.entities, 'entity', 'entities')}, drawn afresh in each run, with {mean} false "
        f"{'value' if mean == '1' else 'values'} each on average; {float(setting.distribution[0]):.1%} have none"
    ]


FAMILY = Family(
    "cleaning",
    {kind.name: kind for kind in PROBLEMS},
    {kind.name: kind for kind in POLICIES},
    METRICS,
    common=("budget",),
    tune=tune,
    tune_terms=TUNE_TERMS,
    describe=_described,
    trainable=Trainable(STATISTICS, USUAL, _scored),
)

__all__ = ["FAMILY", "Setting", "tune"]
