"""A change of the policy in a live session, advice on it, and what the rest of the budget should bring."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxbandit import cleaning, extraction
from jaxbandit.arms.problem import Drawn, given
from jaxbandit.arms.problem import Pull as ArmPull
from jaxbandit.arms.rewards import Bernoulli, Bounded, Gaussian
from jaxbandit.cleaning.fast.random import RandomInRuns
from jaxbandit.cli import program
from jaxbandit.errors import BadInput
from jaxbandit.laws import Uniform
from jaxbandit.live import Session, forecast_arms
from jaxbandit.live import posterior as posteriors
from jaxbandit.live.agent_laws import LAWS
from jaxbandit.live.agents import entities
from jaxbandit.live.arms import TopQuestions
from jaxbandit.live.case import Case
from jaxbandit.live.extraction import _pairs
from jaxbandit.live.forecast import Paying
from jaxbandit.live.journal import Event
from jaxbandit.live.ledger import Ledger
from jaxbandit.live.pictures import picture
from jaxbandit.live.play import Play
from jaxbandit.live.posterior import posterior, simulated
from jaxbandit.live.questions import questions
from jaxbandit.live.rest import Afforded, Continued, Rest
from jaxbandit.random.stream import stream
from jaxbandit.study.spec import Study
from tests.test_live import SEED, again, agent, run_out, study


def answered(session: Session, many: int) -> None:
    answer = agent(session)
    for _ in range(many):
        asked = session.next("a")
        session.record(asked["id"], answer(session.questions[asked["id"]].address), "a")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.begin(study("cleaning", "ee", tmp_path), "ee", tmp_path / "journal")


def test_a_changed_policy_decides_as_if_it_had_been_there_from_the_start(session: Session, tmp_path: Path) -> None:
    """It is told what was answered where it asks for it; the rest was paid, so that the budget ends sooner."""
    answered(session, 24)
    found = session.change("greedy")
    assert (found["policy"], found["was"], found["spent"]) == ("greedy", "ee t=3 q=0.6", 24)
    assert 0 < found["unused"] < 24
    assert again(session).status() == session.status()
    run_out(session, agent(session))
    alone = Session.begin(study("cleaning", "greedy", tmp_path), "greedy", tmp_path / "alone")
    run_out(alone, agent(alone))
    steps = session.play.steps
    assert session.play.trace(steps) == alone.play.trace(steps)
    assert session.spent == steps + session.status()["unused"]
    assert again(session).play.trace(steps) == session.play.trace(steps)


def test_undo_goes_back_beyond_a_change(session: Session) -> None:
    answered(session, 9)
    answers = dict(session.answers)
    answered(session, 2)
    session.change("ee", t=2, q=0.5)
    answered(session, 1)
    for _ in range(3):
        session.undo()
    for each in (session, again(session)):
        assert each.answers == answers
        assert each.status()["policy"] == "ee t=2 q=0.5"
        assert each.spent == 9


def test_open_questions_stay_with_who_has_them(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once nobody has them, they go out again only if the new policy asks them too."""
    answered(session, 3)
    kept, _, lost = (
        session.next(name, lease=lease, ahead=9)["id"] for name, lease in (("slow", 99), ("b", 99), ("lost", 60))
    )
    session.change("random")
    assert session.status()["open"] == 3
    assert session.record(kept, "unknown", "slow")["recorded"]
    later = time.time() + 61
    monkeypatch.setattr("jaxbandit.live.journal.time.time", lambda: later)
    assert session.next("new").get("id") != lost
    for each in (session, again(session)):
        assert each.questions[lost].state == "withdrawn"
        with pytest.raises(BadInput, match="a question that is open; this one was withdrawn"):
            each.record(lost, "unknown", "lost")


def test_a_change_that_is_none(session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                               capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    place = ("--journal", "journal")
    for words, line in (
        (("--policy", "ee", "--set", "t=3", "--set", "q=0.6"), "--policy = ee t=3 q=0.6: another one than now"),
        (("--policy", "best"), "--policy = best: one of random, greedy"),
        (("--policy", "known-sc"), "--policy = known-sc: a policy that does not know the truth"),
        (("--policy", "ee", "--set", "t=0"), "policy.ee.t = 0: "),
        (("--policy", "ee", "--set", "t"), "--set = t: KEY=VALUE"),
    ):
        assert program.run(["live", "change", *place, *words]) == 2
        assert capsys.readouterr().err.startswith(f"jaxbandit: {line}")
    assert program.run(["live", "change", *place, "--policy", "greedy"]) == 0
    assert (
        capsys.readouterr().out
        == "greedy goes on in place of ee t=3 q=0.6; it uses 0 of 0 answers so far; 0 spent, 60 left\n"
    )


def test_a_session_is_offered_no_policy_that_knows_the_truth(tmp_path: Path) -> None:
    given = {"problem": {"kind": "cleaning/synthetic", "entities": 10, "budget": 60}}
    for kinds, allowed in ((["known-sc", "random"], "one of random"), (["known-sc"], "a policy that does not know")):
        with pytest.raises(BadInput, match=f"^--policy = best: {allowed}"):
            Session.begin({**given, "policy": [{"kind": kind} for kind in kinds]}, "best", tmp_path / "other")


def test_a_change_keeps_the_file_of_its_policy(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has it, as another machine needs it, and shows it by its name."""
    monkeypatch.chdir(tmp_path)
    score = Path(cleaning.__file__).parent / "trained.json"
    Path("score.json").write_bytes(score.read_bytes())
    answered(session, 3)
    assert session.change("trained", path="score.json")["policy"].startswith("trained path=score.json:")
    Path("score.json").unlink()
    other = again(session)
    assert other.status() == session.status()
    answered(other, 3)
    assert again(other).status()["answers"] == 6


def test_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of the entities can be cleaned and half cannot, which a rule that never gives up is slow to see."""
    problem = {"kind": "cleaning/synthetic", "entities": 400, "budget": 300, "false_values": {"uniform": [3, 6]}}
    slow = {"problem": problem, "policy": [{"kind": "ee", "t": 12, "q": 0.9, "early_stopping": False}]}
    place = str(tmp_path / "journal")
    session = Session.begin(slow, "ee", place)

    def answer(asked: dict[str, Any]) -> str:
        return "#1" if int(asked["entity"].split()[-1]) % 2 else "unknown"

    for _ in range(180):
        asked = session.next()
        session.record(asked["id"], answer(asked))
    found = session.advice()
    best = max(found["others"], key=lambda each: each["removed"])
    assert found["change"] == best["policy"]
    assert best["ci_low"] > 10
    assert best["removed"] > 1.2 * found["removed"]
    before = session.status()["removed"]
    session.change(best["kind"], **best["params"])
    assert session.case.table["policy"] == {"kind": best["kind"], **best["params"]}
    assert session.forecast()["removed"] == pytest.approx(best["removed"], rel=0.1)
    while "id" in (asked := session.next()):
        session.record(asked["id"], answer(asked))
    assert session.status()["removed"] - before == pytest.approx(best["removed"], rel=0.25)
    assert session.advice()["change"] is None
    assert program.run(["live", "status", "--journal", place, "--advice"]) == 0
    assert f"stay with {session.case.label}" in capsys.readouterr().out


def test_the_forecast_of_arms_is_right_on_average() -> None:
    """The regret of the arms that are chosen, now and at the end, from the middle of a round of pulls."""
    errors = []
    for seed in range(25):
        given = study("topk", "uniform", Path()) | {"seed": seed}
        chosen, key = Case.of(Study.of(given, counted=False), "uniform", {}).chosen, stream(seed, 0)
        asks, tape = questions(chosen.setting, chosen.problem, chosen.policy, key), chosen.setting.problem(on_tape=True)
        assert isinstance(asks, TopQuestions)
        play, instance = Play(chosen.problem, chosen.policy, key, asks, {}), tape.draw(key)
        pulled = jax.jit(lambda pull, tape=tape, key=key, instance=instance: tape.pull(key, instance, pull).total[0])
        means, regret = np.sort(np.asarray(instance.means) / 2**24), {}
        for number, address in enumerate(asks.due(play.pull, {})):
            if number == 60:
                found = forecast_arms.forecast(asks, play, chosen, 180, seed)
                regret["now"] = found["now"]
            play.tell(address, int(pulled(ArmPull(*(jnp.array([x], jnp.int32) for x in (*address, 1)), jnp.int32(1)))))
        assert play.over
        own = np.asarray(instance.means)[play.answer()["chosen"]] / 2**24
        errors.append(means[-3:].mean() - own.mean() - found["end"])
        assert found["end"] < regret["now"]
    assert abs(np.mean(errors)) < 3.5 * np.std(errors, ddof=1) / len(errors) ** 0.5 < 0.05


def test_of_many_arms_a_forecast_takes_laws_from_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for one law alone, it is none at the edge of what is likely; with room for all, means scatter more."""
    rng, means = np.random.default_rng(1), Drawn(Uniform().quantiles(), 40)
    rates = rng.beta(2, 8, 40)
    answers = {(a, j): float(rng.random() < rates[a]) for a in range(24) for j in range(3)}
    drawn = {}
    for most in (1 << 24, 1):
        monkeypatch.setattr(posteriors, "_MOST_CELLS", most)
        found, told = posterior(answers, means, Bernoulli())
        assert told.startswith("fitted: beta(")
        assert found.laws.shape[0] == (LAWS if most > 1 else 1)
        drawn[most] = np.array([np.asarray(found.draw(stream(4, run))[0])[24:].mean() for run in range(200)]) / 2**24
    assert drawn[1].std() < 0.6 * drawn[1 << 24].std()
    assert abs(drawn[1].mean() - drawn[1 << 24].mean()) < 0.1


def test_arms_that_are_not_chosen_yet_do_not_count_as_lost(tmp_path: Path) -> None:
    """A rule that accepts arms late would win all that they pay, if an empty choice were what one has now."""
    session = Session.begin(study("topk", "optmai", tmp_path), "optmai", tmp_path / "journal")
    for number in range(40):
        session.record(session.next()["id"], "1" if number % 3 else "0")
    rewards = session.asks.rewards_by_row(session.answers)
    best = sorted(rewards, key=lambda arm: -np.mean(rewards[arm]))[:3]
    chosen = np.zeros(12, bool)
    assert session.play.answer()["chosen"].sum() < 3
    held = forecast_arms.chosen_now(session.play, chosen, 3)
    assert sorted(session.asks.rows[np.flatnonzero(held)].tolist()) == sorted(best)
    found = session.forecast()
    assert 0 <= found["gain"] < found["now"] < 0.3


def test_nothing_of_the_compiler_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The first pull of a trained rule is of a state of constants."""
    Session.begin(study("topk", "trained", tmp_path, n=8, K=2, budget=100), "trained", tmp_path / "journal").close()
    assert not capfd.readouterr().err


def test_rewards_of_a_begun_round_are_not_drawn_again() -> None:
    """Arms that never pay have what was answered, and no more."""
    chosen, key = Case.of(Study.of(study("topk", "uniform", Path()), counted=False), "uniform", {}).chosen, stream(5, 0)
    asks = questions(chosen.setting, chosen.problem, chosen.policy, key)
    assert isinstance(asks, TopQuestions)
    play = Play(chosen.problem, chosen.policy, key, asks, {})
    for address in asks.due(play.pull, {})[:60]:
        play.tell(address, int(address[0] % 2))
    problem = replace(chosen.problem, means=given(np.zeros(12), shuffled=False))  # type: ignore[type-var]
    rest = forecast_arms.TopRest(problem, forecast_arms.known(asks, play), jnp.zeros(12, bool))  # type: ignore[arg-type]
    outcome = jax.jit(lambda: rest.pull(key, rest.draw(key), play.pull._replace(few=False)))()
    by_arm = dict(zip(np.asarray(play.pull.arm).tolist(), np.asarray(outcome.total).tolist(), strict=True))
    assert by_arm == {arm: 5 * (arm % 2) for arm in range(12)}
    assert set(np.asarray(outcome.made).tolist()) == {20}


@pytest.mark.parametrize("law", ["beta", "uniform", "normal", "gaussian"])
def test_what_rewards_tell_of_their_means(law: str) -> None:
    """The mean of an arm is off by as much as the law that is left of it is wide."""
    rewards: Any = Bounded(jnp.float32(3 if law == "beta" else 0.2), law)
    if law == "gaussian":
        rewards = Gaussian(jnp.float32(0), jnp.float32(1), jnp.float32(0.2))
    means, key = Drawn(Uniform().quantiles(), 40), stream(3, 0)
    true = np.asarray(means.draw(key)[0])
    arm = jnp.arange(40, dtype=jnp.int32)
    draw = jax.jit(lambda number: rewards.one(key, arm, arm, number, true))
    answers = {(a, j): float(value) for j in range(60) for a, value in enumerate(draw(jnp.int32(j)).tolist())}
    assert simulated(rewards) is rewards
    found, told = posterior(answers, means, rewards)
    drawn = np.stack([np.asarray(found.draw(stream(4, run))[0]) for run in range(50)])
    assert told == "that of the study"
    off = (drawn.mean(axis=0) - true) / np.maximum(drawn.std(axis=0), 2**24 / 512)
    assert 0.5 < np.sqrt((off**2).mean()) < 1.6
    assert drawn.std(axis=0).mean() < 0.06 * 2**24


@pytest.mark.parametrize(
    ("family", "policy", "problem"),
    [
        ("topk", "uniform", {"kind": "topk/bounded", "n": 8, "K": 2, "budget": 160, "law": "uniform", "spread": 0.3}),
        ("topk", "uniform", {"kind": "topk/replay", "path": "past.csv", "reward": "reward", "K": 2, "budget": 160}),
        ("outliers", "rr", {"kind": "outliers/bounded", "n": 16, "budget": 320, "law": "normal", "spread": 0.2}),
    ],
)
def test_forecasts_of_other_rewards(family: str, policy: str, problem: dict[str, Any], tmp_path: Path) -> None:
    """What is won is what an end now would lose more."""
    rows = [f"{arm},{0.1 * arm + 0.05 * (number % 4)}" for arm in range(8) for number in range(8)]
    (tmp_path / "past.csv").write_text("arm,reward\n" + "\n".join(rows) + "\n")
    given = problem | ({"path": str(tmp_path / "past.csv")} if "path" in problem else {})
    session = Session.begin({"problem": given, "policy": [{"kind": policy}]}, policy, tmp_path / "journal")
    for _ in range(60):
        asked = session.next()
        high = asked["arm"] in (1, 6)
        session.record(asked["id"], str(int(high) if "0" in asked["allowed"] else 0.7 if high else 0.3))
    found = session.forecast()
    assert found["gain"] == pytest.approx(found["now"] - found["end"])
    assert found["ci_low"] < found["gain"] < found["ci_high"]
    assert 0 <= found["end"] < found["now"]


def test_the_rest_of_a_session_has_what_its_problem_and_policy_have(tmp_path: Path) -> None:
    """Also what is optional in the grammar; but no scratch fields, which a run would not begin with."""
    rule, fast = cleaning.ee(3, 0.6), RandomInRuns(256)
    assert Continued(rule, None).execution == rule.execution
    assert fast.execution.scratch
    assert Continued(fast, None).execution == replace(fast.execution, scratch=())
    assert not Paying(rule, None, None, jnp.int32(9)).execution.masked  # type: ignore[arg-type]
    assert Continued(extraction.gs_exact(reach="all"), None).informed
    assert not hasattr(Continued(rule, None), "informed")
    assert not hasattr(Continued(rule, None), "advance")
    chosen = Case.of(Study.of(study("cleaning", "ee", tmp_path), counted=False), "ee", {}).chosen
    assert not hasattr(Rest(chosen.problem), "score")
    assert Rest(chosen.problem).budget == chosen.problem.budget  # type: ignore[attr-defined]
    arms = Case.of(Study.of(study("topk", "uniform", tmp_path), counted=False), "uniform", {}).chosen.problem
    assert Rest(arms).score == arms.score  # type: ignore[attr-defined]


def test_forecasts_of_other_families(tmp_path: Path) -> None:
    grouped = {"problem": {"kind": "outliers/injected", "n": 20, "budget": 99}, "policy": [{"kind": "gold"}]}
    assert "groups of outliers" in Session.begin(grouped, "gold", tmp_path / "grouped").forecast()["none"]
    session = Session.begin(study("outliers", "rr", tmp_path), "rr", tmp_path / "outliers")
    answered(session, 40)
    found = session.forecast()
    assert (found["metric"], found["gain"]) == ("wrong", pytest.approx(found["now"] - found["end"]))
    assert 0 < found["end"] < found["now"] < 12
    session = Session.begin(study("extraction", "bfs", tmp_path), "bfs", tmp_path / "extraction")
    answered(session, 2)
    assert re.match(r"cafe \d+ @ [PS]/[abc], [xy]; cafe", session.asks.text(session.told()[0]["answer"]))
    before, expected = session.status()["entities"], session.forecast()
    bought = []
    for _ in range(1):
        run_out(session, agent(session))
        bought.append(session.status()["entities"] - before)
    assert expected["p5"] <= bought[0] <= expected["p95"]
    other = Session.begin(study("extraction", "bfs", tmp_path), "bfs", tmp_path / "other")
    asked = other.next()
    leaf = "P/a, x"
    other.record(asked["id"], json.dumps([{"name": "a new cafe", "at": leaf}]))
    assert other.forecast() == {
        "none": "the study's problem does not know a new cafe: nobody can tell how many others there are"
    }


@pytest.mark.parametrize(
    ("family", "first", "then", "gain"),
    [
        ("topk", "uniform", "lucb", "gain"),
        ("outliers", "rr", "ib", "gain"),
        ("extraction", "bfs", "rand-leaf", "entities"),
    ],
)
def test_a_forecast_ends_with_the_money(family: str, first: str, then: str, gain: str, tmp_path: Path) -> None:
    """A policy that takes over once all is spent would go on, but nothing is asked any more."""
    session = Session.begin(study(family, first, tmp_path), first, tmp_path / "journal")
    run_out(session, agent(session))
    session.change(then)
    assert session.over
    assert not session.play.over
    found = session.forecast()
    assert (found[gain], found["ci_low"], found["ci_high"]) == (0, 0, 0)


def test_a_forecast_buys_no_entity_again(tmp_path: Path) -> None:
    """Also those that a policy has bought which was replaced: there are 40, of which most are known."""
    session = Session.begin(study("extraction", "bfs", tmp_path, budget=60.0), "bfs", tmp_path / "journal")
    answered(session, 10)
    bought = session.status()["entities"]
    session.change("rand-leaf")
    assert session.status()["unused"] == 10
    found = session.forecast()
    assert 0 < found["entities"] <= found["p95"] <= 40 - bought < 20


def crowd(tmp_path: Path, policy: str, seed: int = SEED, **problem: Any) -> Session:
    """A session of queries that exclude up to two entities each."""
    given = study("extraction", policy, tmp_path, budget=60.0, configurations=[[3, 2]], **problem)
    return Session.begin(given | {"seed": seed}, policy, tmp_path / policy)


def leaf_of(cafe: str) -> str:
    number = int(cafe.split()[-1])
    return f"{'PS'[number % 2]}/{'abc'[number % 3]}, {'xy'[number % 5 > 2]}"


@pytest.mark.parametrize(("attributes", "seed"), [(["place", "kind"], 0), (["kind"], 7)])
def test_a_query_excludes_what_its_own_policy_was_told(attributes: list[str], seed: int, tmp_path: Path) -> None:
    """Whatever another one bought before it: an answer beside other entities is none to its query, though these have
    the same numbers."""
    session, alone = (crowd(tmp_path, policy, seed, attributes=attributes) for policy in ("bfs", "rand-leaf"))
    answered(session, 3)
    session.change("rand-leaf")
    for each, many in ((session, 9), (alone, 12)):
        answered(each, many)
    steps = session.play.steps
    assert session.play.trace(steps) == alone.play.trace(steps)
    assert steps == 12 - session.status()["unused"] > 8
    shown = [[row["query"] for row in each.told()] for each in (session, alone)]
    assert any(query["exclude"] for query in shown[1][:steps])
    assert all(query in shown[0] for query in shown[1][:steps])
    assert again(session).status() == session.status()


def test_an_answer_is_read_by_what_its_query_excludes(tmp_path: Path) -> None:
    """And by no list that another policy, which numbers entities in its own order, would have."""
    session = crowd(tmp_path, "bfs")
    answered(session, 3)
    session.change("rand-leaf")
    told = list[str]()
    answer = agent(session)
    for _ in range(9):
        asked = session.next("a")
        query, by_policy = asked["query"], [each for each in session.play.pull.exclude.tolist() if each >= 0]
        assert query["exclude"] == [told[each] for each in by_policy]
        assert all(leaf_of(name) == query["node"] for name in query["exclude"])
        for name in query["exclude"]:
            with pytest.raises(BadInput, match=f"ANSWER = {name}: an entity that the query does not exclude"):
                session.record(asked["id"], name, "a")
        pairs = session.record(asked["id"], answer(session.questions[asked["id"]].address), "a")["answer"]
        told += [name for name, _ in pairs if name not in told]
    assert query["exclude"]
    before = list(session.asks.numbers(session.answers))  # type: ignore[attr-defined]
    asked = session.next("a")
    known = [name for name in before if leaf_of(name) == asked["query"]["node"]]
    free = [name for name in known if name not in asked["query"]["exclude"]][:1] or ["a new cafe"]
    assert session.record(asked["id"], free[0], "a")["recorded"]


def test_a_query_from_before_a_change_excludes_what_its_agent_was_shown(tmp_path: Path) -> None:
    session = crowd(tmp_path, "bfs")
    answered(session, 3)
    kept = session.next("slow")
    excluded = kept["query"]["exclude"]
    assert len(excluded) == 2
    session.change("rand-leaf")
    answered(session, 8)
    for each in (session, again(session)):
        assert each.asked(kept["id"])["query"] == kept["query"] == each.next("slow")["query"]
        for name in excluded:
            with pytest.raises(BadInput, match=f"ANSWER = {name}: an entity that the query does not exclude"):
                each.record(kept["id"], f"{name} @ {leaf_of(name)}", "slow")
    known = list(session.asks.numbers(session.answers))  # type: ignore[attr-defined]
    free = [name for name in known if name not in excluded and leaf_of(name).endswith(kept["query"]["node"][-1])]
    assert session.record(kept["id"], "; ".join(f"{name} @ {leaf_of(name)}" for name in free[:3]), "slow")["recorded"]
    assert again(session).status() == session.status()


def test_what_was_bought_before_a_change(tmp_path: Path) -> None:
    """At the price of then, by the queries of all policies in the order of their answers."""
    session = crowd(tmp_path, "bfs")
    answered(session, 2)
    kept = session.next("slow")["id"]
    session.change("rand-leaf")
    answered(session, 2)
    session.record(kept, agent(session)(session.questions[kept].address), "slow")
    session.change("crux", estimator="good-turing", short_list="actual")
    for each in (session, again(session)):
        status, rows = each.status(), entities(each)
        assert status["cost"] == status["spent"] > sum(map(each.asks.cost, each.answers)) / each.asks.units
        assert [row["query"] for row in rows] == sorted(row["query"] for row in rows)
        first = dict[str, int]()
        for number, row in enumerate(each.told(), 1):
            for name, _ in row["answer"]:
                first.setdefault(name, number)
        assert {row["entity"]: row["query"] for row in rows} == first
    drawn, _ = picture(session)
    assert drawn


def test_the_first_journals_have_numbers_for_what_is_excluded(tmp_path: Path) -> None:
    session = crowd(tmp_path, "rand-leaf")
    answered(session, 9)
    session.undo()
    numbers, events = session.asks.numbers(session.answers), list[Event]()  # type: ignore[attr-defined]
    for event in json.loads(json.dumps(session._ledger.events)):
        found = Event(*event)
        if found.kind == "asked":
            *of, excluded = found.content["address"]
            found = found._replace(content=found.content | {"address": [*of, [numbers[name] for name in excluded]]})
        events.append(found)
    ledger = Ledger(session.case, "journal")
    for some in (events[:-1], events[-1:]):
        ledger.take(some)
    assert ledger.questions == session.questions
    assert any(address[3] for address in ledger.at)
    assert ledger.play.trace(ledger.play.steps) == session.play.trace(session.play.steps)


def test_a_forecast_takes_what_was_answered_ahead() -> None:
    """For nothing, and as it was answered."""
    given = study("outliers", "rr", Path())
    chosen, key = Case.of(Study.of(given, counted=False), "rr", {}).chosen, stream(5, 0)
    asks: Any = questions(chosen.setting, chosen.problem, chosen.policy, key)
    play = Play(chosen.problem, chosen.policy, key, asks, {})
    for arm in range(1, 12):  # all wait for arm 0
        play.tell((arm, 0), 1)
    known: Any = forecast_arms.known(asks, play)
    rest = forecast_arms.OutlierRest(chosen.problem, known, jnp.zeros(12, bool))  # type: ignore[arg-type]
    policy = Afforded(chosen.policy, play.state, known, jnp.int32(1))
    instance = rest.draw(key)

    @jax.jit
    def step(state: Any) -> Any:
        view = rest.view(key, instance)
        state = policy.advance(view, state, lambda pull: rest.pull(key, instance, pull))
        return state, policy.done(view, state)

    state, over = policy.init(rest.view(key, instance)), False
    while not over:
        state, over = step(state)
    seen = state.inner.seen
    assert seen.pulls.tolist() == [1] * 12
    assert seen.ones.tolist()[1:] == [1] * 11
    assert state.paid == 2  # of which the last one is not made


@pytest.mark.parametrize("whole", [True, False])
def test_answers_are_found_by_the_pulls_that_they_are_of(whole: bool, tmp_path: Path) -> None:
    kind = "topk/bernoulli" if whole else "topk/gaussian"
    problem = {"kind": kind, "n": 3, "K": 1, "budget": 90} | ({} if whole else {"sd": 1.0})
    session = Session.begin({"problem": problem, "policy": [{"kind": "uniform"}]}, "uniform", tmp_path / "journal")
    play, asks = session.play, session.asks
    assert isinstance(asks, TopQuestions)
    for address, value in {(0, 4): 1, (2, 2): 1, (2, 31): 0, (2, 33): 1 if whole else 1e6}.items():
        play.tell(address, value)
    known = forecast_arms.known(asks, play)
    arm, first = jnp.array([2, 0, 2, 1, -1, 2], jnp.int32), jnp.array([30, 0, 0, 0, 0, 34], jnp.int32)
    pull = ArmPull(arm, first, jnp.int32(4), jnp.int32(6))
    assert known.cost(pull) == 5 * 4 - 3
    assert known.cost(pull._replace(used=jnp.int32(1))) == 2
    assert known.cost(pull._replace(times=jnp.array([1, 5, 1, 0, 0, 1]))) == 1 + 4 + 1 + 1
    made, total = known.of(jnp.array([2, 0]), jnp.array([30, 0]), jnp.array([4, 5]))
    assert (made.tolist(), total.tolist()) == ([2, 1], [1 if whole else 1e6, 1])


@pytest.mark.parametrize("family", ["cleaning", "extraction"])
def test_an_answer_that_was_taken_back_counts_no_more(family: str, tmp_path: Path) -> None:
    """Neither in the list of answers nor in what was spent when the policy changed."""
    policy, other, more = ("ee", "greedy", {}) if family == "cleaning" else ("rand-leaf", "bfs", {"cost_model": "step"})
    session = Session.begin(study(family, policy, tmp_path, **more), policy, tmp_path / "j")
    for _ in range(2):
        session.record(session.next()["id"], "unknown" if family == "cleaning" else "none")
    session.undo()
    spent = session.status()["spent"]
    session.change(other)
    assert session.changes()[0]["spent"] == spent
    assert len(session.told()) == session.status()["answers"] == 1


@pytest.mark.parametrize("budget", range(20, 28))
def test_money_holds_with_many_agents_ahead(budget: int, tmp_path: Path) -> None:
    session = Session.begin(study("cleaning", "greedy", tmp_path, budget=budget), "greedy", tmp_path / "j")
    run_out(session, agent(session), ahead=6, agents=4)
    assert session.spent <= budget
    assert session._ledger.left == budget - session.spent


def test_leases_agents_and_costs_are_kept_as_they_were_given(tmp_path: Path) -> None:
    place = tmp_path / "j"
    session, on = Session.begin(study("cleaning", "random", tmp_path), "random", place), ("--journal", str(place))
    assert program.run(["live", "next", *on, "--agent", "a", "--lease", "60"]) == 0
    with session.journal.writing(0, "") as writing:
        (lease,) = writing.leases().values()
    assert (lease.agent, lease.seconds) == ("a", 60)
    assert program.run(["live", "next", *on, "--agent", "b", "--ahead", "5"]) == 0
    assert session.status()["open"] == 2
    assert program.run(["live", "record", *on, "1", "unknown", "--agent", "a", "--cost", "2.5"]) == 0
    session.status()
    (row,) = session.told()
    assert (row["agent"], row["cost"]) == ("a", 2.5)


def test_an_accent_is_one_letter_in_the_name_of_an_entity() -> None:
    """However an agent writes it: two forms look the same and were two entities."""
    one, two = "Caf\u00e9", "Cafe\u0301"
    assert _pairs(f"{two} @ {two}; {one}") == [(one, one), (one, None)]
    assert _pairs(json.dumps([{"name": two, "at": two}, {"name": one}])) == [(one, one), (one, None)]
