"""The extraction family as study files and the command line see it: domains, policies and metrics, by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from jaxbandit.describe import brief
from jaxbandit.errors import BadInput, under
from jaxbandit.extraction.answers import MODELS as ANSWERS
from jaxbandit.extraction.bfs import bfs
from jaxbandit.extraction.costs import CONFIGURATIONS, Configurations, checked, number_of
from jaxbandit.extraction.costs import MODELS as COSTS
from jaxbandit.extraction.domains import eventbrite_like, people_like
from jaxbandit.extraction.gs_exact import gs_exact
from jaxbandit.extraction.options import crux, root_chao
from jaxbandit.extraction.poset import Domain
from jaxbandit.extraction.problem import MOST_BUDGET, Extraction, extraction
from jaxbandit.extraction.rand import rand
from jaxbandit.extraction.retrieved import OVERFLOW
from jaxbandit.extraction.table import read_domain
from jaxbandit.grammar import faster
from jaxbandit.parameters import parameters
from jaxbandit.registry import (
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
    whole,
)
from jaxbandit.words import counted


@dataclass(frozen=True)
class Setting:
    """A domain to be extracted as its user describes it: see ``extraction``. ``budget`` and
    ``largest_budget`` are costs."""

    domain: Domain
    budget: float
    answer_model: str
    cost_model: str
    configurations: Configurations
    informed: bool
    largest_budget: float | None

    __repr__ = brief

    @cached_property
    def _problem(self) -> Extraction:
        with under("problem"):
            return extraction(
                self.domain, self.budget, answers=self.answer_model, cost=self.cost_model,
                configurations=self.configurations, largest_budget=self.largest_budget, informed=self.informed,
            )  # fmt: skip

    def problem(self) -> Extraction:
        """Returns the problem that lanes are run against."""
        return self._problem


_COMMON = (
    Parameter("budget", real(1e-3, MOST_BUDGET), "what all queries together may cost", label="budget (units of cost)"),
    Parameter("answer_model", one_of(*ANSWERS), "what queries return: proportional to popularity, or the k "
              "largest of uniform x popularity", "proportional"),
    Parameter("cost_model", one_of(*COSTS), "what queries cost", "linear"),
)  # fmt: skip


def _configurations(name: str, value: Any) -> Configurations:
    pairs = isinstance(value, list | tuple) and all(isinstance(each, list | tuple) for each in value)
    if not pairs or any(len(each) != 2 or not all(type(number) is int for number in each) for each in value):
        raise BadInput(name, value, "pairs [k, l] of whole numbers, such as [[5, 0], [20, 5]]")
    with under(name):
        return checked(value)


_QUERIES = (
    Parameter("configurations", _configurations, "the pairs [k, l] that may be asked: k entities, l excluded",
              CONFIGURATIONS, swept=False),
    Parameter("informed", flag, "tabulate the true gain of each query, which gs-exact asks for", False, swept=False),
    Parameter("largest_budget", real(1e-3, MOST_BUDGET), "give policies room for this budget, so that the budgets of a "
              "sweep share a compiled program", None, swept=False),
)  # fmt: skip
_SEED = Parameter("domain_seed", whole(0, 2**32 - 1), "of the domain that is generated", 0, swept=False)

_eventbrite, _people = lru_cache(maxsize=2)(eventbrite_like), lru_cache(maxsize=2)(people_like)


def _generated(make: Any) -> Any:
    def build(domain_seed: int, **rest: Any) -> Setting:
        return Setting(make(domain_seed), **rest)

    return build


def _columns(name: str, value: Any) -> tuple[str, ...]:
    return tuple(text(name, column) for column in (value if isinstance(value, list) and value else [value]))


def _trees(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping) or not all(isinstance(v, Mapping) and set(v) == {"path"} for v in value.values()):
        raise BadInput(name, value, '{ place = { path = "places.csv" } }: of an attribute, a table of (child, parent)')
    return tuple((attribute, text(f"{name}.{attribute}.path", tree["path"])) for attribute, tree in value.items())


@lru_cache(maxsize=4)
def _read(path: str, attributes: tuple[str, ...], trees: tuple[tuple[str, str], ...], *rest: Any) -> Domain:
    entity, popularity, separator, _changed = rest
    with under("problem"):
        return read_domain(
            path, attributes, entity=entity, popularity=popularity, trees=dict(trees), separator=separator
        )


def _table(
    path: str, attributes: tuple[str, ...], entity: str | None, popularity: str | None,
    trees: tuple[tuple[str, str], ...], separator: str, **rest: Any,
) -> Setting:  # fmt: skip
    files = [Path(path), *(Path(tree) for _, tree in trees)]
    changed = tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
    return Setting(_read(path, attributes, trees, entity, popularity, separator, changed), **rest)


PROBLEMS = (
    ProblemKind("eventbrite", "57,805 events by type, place and date, as in the paper", (*_COMMON, _SEED, *_QUERIES),
                _generated(_eventbrite)),
    ProblemKind("people", "1,245 people by occupation and news portal, as in the paper", (*_COMMON, _SEED, *_QUERIES),
                _generated(_people)),
    ProblemKind(
        "table", "the entities of a CSV or SQLite table, a row an entity",
        (
            *_COMMON,
            Parameter("path", text, "a CSV or SQLite file", swept=False),
            Parameter("attributes", _columns, "the columns of the attributes, whose cells are paths (US/Oregon/Salem)",
                      swept=False),
            Parameter("entity", text, "the column of the entities' names", None, swept=False),
            Parameter("popularity", text, "the column of their popularities; all the same where left out", None,
                      swept=False),
            Parameter("trees", _trees, "of some attributes, a table of (child, parent)", (), swept=False),
            Parameter("separator", text, "of the parts of a path", "/", swept=False),
            *_QUERIES,
        ), _table,
    ),
)  # fmt: skip


def _crux(_: Setting, **options: Any) -> tuple[Any, dict[str, Any]]:
    with under("policy.crux"):
        return crux(**options), {}


def _gs_exact(setting: Setting, reach: str) -> tuple[Any, dict[str, Any]]:
    if not setting.informed:
        raise BadInput("problem.informed", False, "true for gs-exact, which asks for the true gain")
    with under("policy.gs-exact"):
        policy = gs_exact(reach=reach)
        faster(policy, setting.problem())  # a domain that is too large is refused here
        return policy, {}


def _rand(leaves: bool) -> Any:
    return lambda _, dear: (rand(leaves=leaves, dear=dear), {})


def _bfs(setting: Setting, configuration: tuple[int, int] | None, dear: str) -> tuple[Any, dict[str, Any]]:
    with under("policy.bfs"):
        if configuration is not None:
            number_of(setting.problem().configurations, *configuration)
        return bfs(configuration, dear=dear), {}


POLICIES = (
    PolicyKind(
        "crux", "Algorithm 1: the highest (gain + sigma) / cost, growing into the hierarchy",
        parameters(crux), _crux, retired={"nodes": "the room for nodes that entered follows from the problem"},
    ),
    PolicyKind("root-chao", "the root's queries alone, by Chao92 and Shen", (), lambda _: (root_chao(), {})),
    PolicyKind("gs-exact", "crux with the true gain and no sigma: how well it could do",
               parameters(gs_exact), _gs_exact, reference=True),
    PolicyKind("bfs", "one query a node, breadth first, not below an empty answer",
               parameters(bfs), _bfs),
    *(
        PolicyKind(name, f"{what} and a configuration at random",
                   parameters(rand), _rand(leaves))
        for name, what, leaves in (("rand", "a node", False), ("rand-leaf", "a leaf", True))
    ),
)  # fmt: skip


def _cost(setting: Setting, answers: Answers) -> np.ndarray:
    cost: np.ndarray = answers["spent"] / float(setting.problem().units)
    return cost


def _different(setting: Setting, answers: Answers) -> np.ndarray:
    different: np.ndarray = (answers["configurations"] > 0).sum(axis=-1).astype(np.float64)
    return different


def _mean_of(which: int) -> Any:
    """The mean k (0) or l (1) of a run's queries; 0 of none."""

    def mean(setting: Setting, answers: Answers) -> np.ndarray:
        sizes = np.array([pair[which] for pair in setting.configurations], np.float64)
        found: np.ndarray = answers["configurations"] @ sizes / np.maximum(answers["queries"], 1)
        return found

    return mean


def _overflow(setting: Setting, answers: Answers) -> np.ndarray:
    over: np.ndarray = (answers["code"] == OVERFLOW).astype(np.float64)
    return over


METRICS = (
    Metric("entities", "distinct entities", answered("entities")),
    Metric("cost", "cost (units of cost)", _cost, lower_is_better=True),
    Metric("queries", "queries", answered("queries")),
    Metric("configurations_used", "different configurations (k, l) asked", _different),
    Metric("mean_k", "mean k of the queries", _mean_of(0)),
    Metric("mean_l", "mean l of the queries", _mean_of(1)),
    Metric("overflow", "share of runs that met more nodes or entities than there is room for", _overflow, binary=True,
           lower_is_better=True),
)  # fmt: skip


def _described(setting: Setting) -> list[str]:
    domain = setting.domain
    values = " x ".join(f"{len(tree.parent) - 1:,}" for tree in domain.trees)
    most, leaves = np.sort(domain.popularity)[::-1], np.unique(domain.leaf).size
    lines = [
        f"{_entities(setting)} at {counted(leaves, 'leaf', 'leaves')} of a hierarchy of "
        f"{counted(len(domain.values), 'node', 'nodes')}: {values} {'value' if values == '1' else 'values'} of "
        f"{counted(len(domain.trees), 'attribute', 'attributes')}"
    ]
    if most[0] > most[-1]:
        top = -(-len(most) // 10)
        lines.append(
            f"the most popular tenth of the entities has {most[:top].sum() / most.sum():.0%} of the popularity"
        )
    else:
        lines.append("all entities are equally popular")
    return lines


def _entities(setting: Setting) -> str:
    return counted(len(setting.domain.leaf), "entity", "entities")


_QUESTION = Question(
    "entities", lambda setting: f"which policy, which budget? Of {_entities(setting)} are found",
    "to find {} of the entities", "a number of entities, above 0", "cost", "units of cost",
)  # fmt: skip


FAMILY = Family(
    "extraction",
    {kind.name: kind for kind in PROBLEMS},
    {kind.name: kind for kind in POLICIES},
    METRICS,
    common=("budget", "answer_model", "cost_model"),
    describe=_described,
    question=_QUESTION,
    failed=lambda answers: answers["code"] == OVERFLOW,
)

__all__ = ["FAMILY", "Setting"]
