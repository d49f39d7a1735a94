"""Whether another policy, or other parameters, would bring more from here on: simulated with what the answers tell."""

from statistics import NormalDist
from typing import Any

import numpy as np

from jaxbandit.errors import BadInput
from jaxbandit.live.case import Case
from jaxbandit.live.cleaning import CleaningQuestions
from jaxbandit.live.forecast import MOST_ENTITIES, gains, records_of, rest, runs_for, told_by
from jaxbandit.live.play import Play
from jaxbandit.random.stream import stream
from jaxbandit.registry import without_kind

KINDS = ("ee", "greedy", "index")
"""Those that may be advised: each learns from answers, and has no parameter that would have to be guessed."""


def advice(case: Case, asks: CleaningQuestions, play: Play, left: int) -> dict[str, Any]:
    """Compares what the policies of ``KINDS`` would remove with the rest of the money, each told the answers so far as
    ``Session.change`` does; ``ee`` is tuned anew, for the sc-pdf that fits the answers.

    Returns:
        JSON-ready: ``now``, the policy that goes on, and ``removed``, what it is expected to remove in ``runs``
        simulated runs; ``others``, a list with each one's ``policy`` (its label), ``kind``, ``params``, ``removed``,
        and ``more``, the paired difference, with ``ci_low`` and ``ci_high``, which hold for all together at 95 %;
        ``change``, the best one's label where it is surely better, else None. Or ``none``: a line that says why not.
    """
    records, seed = records_of(asks, play.answers), case.table["seed"]
    agent = told_by(records)
    if max(records, default=0) >= MOST_ENTITIES:
        return {"none": f"entities are numbered above {MOST_ENTITIES:,}"}
    found: list[tuple[Case, Play]] = []
    for kind in KINDS:
        try:
            other = case.with_policy(kind, {}, None if agent is None else agent.best)
        except BadInput:  # a problem that the policy is not for
            continue
        if other.table["policy"] != case.table["policy"]:
            chosen = other.chosen
            found.append((other, Play(chosen.problem, chosen.policy, stream(seed, 0), asks, play.answers)))
    runs = min(runs_for(each, left) for each in (play, *(own for _, own in found)))
    laws = agent.likely if agent else [asks.setting.sc_pdf]
    problem = rest(asks, play.answers, case.chosen.problem, laws, seed)  # type: ignore[arg-type]
    now = gains(problem, play, case.chosen.policy, left, runs, seed)
    z = NormalDist().inv_cdf(1 - 0.025 / max(len(found), 1))
    others = [
        _compared(other, gains(problem, own, other.chosen.policy, left, runs, seed), now, z) for other, own in found
    ]
    best = max(others, key=lambda each: each["more"], default=None)
    return {
        "now": case.label, "removed": now.mean(), "runs": runs, "others": others,
        "change": best["policy"] if best is not None and best["ci_low"] > 0 else None,
    }  # fmt: skip


def _compared(case: Case, gain: np.ndarray, now: np.ndarray, z: float) -> dict[str, Any]:
    more = gain - now
    half = z * more.std(ddof=1) / more.size**0.5
    policy = case.table["policy"]
    return {
        "policy": case.label, "kind": policy["kind"],
        "params": without_kind(policy),
        "removed": gain.mean(), "more": more.mean(), "ci_low": more.mean() - half, "ci_high": more.mean() + half,
    }  # fmt: skip


__all__ = ["KINDS", "advice"]
