"""Pictures of a session, as SVG that stands in a page: what was found over what was spent, and what arms gave."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from jaxbandit.engine import simulate
from jaxbandit.live.arms import ArmQuestions
from jaxbandit.live.session import Session
from jaxbandit.registry import measured
from jaxbandit.wilson import share_interval, student

RUNS, STEPS, POINTS = 200, 20, 200
MOST_ARMS = 60
_LONGEST = 16
"""Characters of an arm's name below its mark."""
_FOUND = {"cleaning": ("removed", "false values removed"), "extraction": ("entities", "entities bought")}
_OURS, _SIMULATED, _SIDE = "#D55E00", "#56B4E9", "#808080"


def picture(session: Session) -> tuple[str, str]:
    """Returns the picture of a session, and its caption.

    Of cleaning and extraction it is what was found, with the range of 90 % of simulated runs: as a band, or where the
    policy plans for its budget, at the end alone. Of arms it is the mean reward of each.
    """
    if session.asks.family not in _FOUND:
        return _drawn(lambda axes: _arms(axes, session)), _caption_of_arms(session)
    found = _FOUND[session.asks.family][1]
    where = "" if session.case.chosen.anytime else " once the budget is spent, for which the policy plans"
    caption = f"{found}, by what was spent: the session, and the range of 90 % of {RUNS} simulated runs of the study's "
    return _drawn(lambda axes: _curve(axes, session)), f"{caption}problem{where}"


def _curve(axes: Any, session: Session) -> None:
    name, label = _FOUND[session.asks.family]
    spent, found, answers = [0.0], [0.0], {}
    told, paid = [row["id"] for row in session.told()], 0.0
    every = -(-len(told) // POINTS)  # each point takes all answers before it
    for place, number in enumerate(told, 1):
        address, value = session.answer_of(number)
        answers[address] = value
        paid += session.questions[number].cost / session.asks.units
        if place % every == 0 or place == len(told):
            spent.append(paid)
            found.append(float(session.asks.found(answers, {})[name]))
    points, low, high = _simulated(session, name)
    if points.size > 1:
        axes.fill_between([0, *points], [0, *low], [0, *high], color=_SIMULATED, alpha=0.4, linewidth=0,
                          label="simulated, 90 % of the runs")  # fmt: skip
    else:
        axes.vlines(points, low, high, color=_SIMULATED, linewidth=6, label="simulated, 90 % of the runs",
                    clip_on=False)  # fmt: skip
    axes.plot(spent, found, color=_OURS, label="the session")
    axes.set(xlabel="spent", ylabel=label, xlim=(0, session.budget), ylim=(0, None))
    axes.legend(frameon=False, loc="best")


def _simulated(session: Session, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the 5 % and 95 % quantiles of a metric over simulated runs, after what was spent."""
    chosen = session.case.chosen
    budget = int(chosen.problem.budget)  # type: ignore[attr-defined]
    points = np.array([budget])
    if chosen.anytime:
        points = np.unique(np.linspace(0, budget, min(STEPS, budget) + 1)[1:].astype(int))
    runs = simulate(chosen.problem, chosen.policy, runs=RUNS, seed=1, checkpoints=points[:-1].tolist(), progress=False)
    runs.pop("endless")
    metric = next(each for each in chosen.family.metrics if each.name == name)
    if points.size > 1:
        cuts = [{key: each[0, :, at] for key, each in runs.items()} for at in range(points.size)]
    else:
        cuts = [{key: each[0] for key, each in runs.items()}]
    values = np.stack([measured(metric, chosen.setting, cut) for cut in cuts])
    low, high = np.quantile(values, [0.05, 0.95], axis=1)
    return points * (session.budget / budget), low, high


def _arms(axes: Any, session: Session) -> None:
    assert isinstance(session.asks, ArmQuestions)
    status = session.status()
    special, word = (status["chosen"], "chosen") if "chosen" in status else (status["outliers"], "called outliers")
    rewards, whole = session.asks.rewards_by_row(session.answers), session.asks.whole
    shown = sorted(rewards, key=lambda row: -np.mean(rewards[row]))[:MOST_ARMS]
    for label, color, ours in ((f"{word} now", _OURS, True), ("others", "#0072B2", False)):
        rows = [place for place, row in enumerate(shown) if (row in special) == ours]
        if rows:
            own = [rewards[shown[place]] for place in rows]
            means = np.array([np.mean(each) for each in own])
            low, high = np.transpose([_interval(each, whole) for each in own])
            axes.errorbar(rows, means, [means - low, high - means], fmt="o", markersize=4, color=color, label=label,
                          linewidth=1.2)  # fmt: skip
    few = len(shown) <= 30
    names = status.get("names", {})
    labels = [names.get(str(row), str(row)) for row in shown]
    labels = [label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…" for label in labels]
    axes.set_xticks(
        range(len(shown)) if few else [], labels if few else [], rotation=90 if names else 0, parse_math=False
    )
    axes.set(xlabel="arm, by its mean", ylabel="mean reward")
    if special:
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)  # no mark is under it


def _interval(rewards: list[float], whole: bool) -> tuple[float, float]:
    """Returns the 95 % interval of a mean: Wilson's where all rewards are 0 or 1 (``whole``), else Student's; of one
    reward that can be another number, the reward itself, as it does not tell how far others are from it."""
    mean, many = float(np.mean(rewards)), len(rewards)
    if whole:
        return share_interval(mean, many)
    half = student(0.975, many) * float(np.std(rewards, ddof=1)) / many**0.5 if many > 1 else 0.0
    return mean - half, mean + half


def _caption_of_arms(session: Session) -> str:
    assert isinstance(session.asks, ArmQuestions)
    many = len(session.asks.rewards_by_row(session.answers))
    which = "each arm" if many <= MOST_ARMS else f"the {MOST_ARMS} best of {many} arms"
    return f"the mean reward of {which}, and its 95 % interval"


def _drawn(draw: Callable[[Any], None]) -> str:
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "live"}):
        figure = Figure(figsize=(4.2, 3.0), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        draw(axes)
        figure.patch.set_alpha(0)
        axes.patch.set_alpha(0)
        axes.tick_params(color=_SIDE)
        for side in axes.spines.values():
            side.set_color(_SIDE)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


__all__ = ["picture"]
