"""Live sessions: the run is the simulator's, and the journal loses nothing."""

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from benchmarks.live_ahead import measured
from jaxbandit.arms.problem import Pull as ArmPull
from jaxbandit.cleaning.pulls import Pull as CleaningPull
from jaxbandit.cli import program
from jaxbandit.cli.live import Undo
from jaxbandit.cli.live_common import question
from jaxbandit.engine import simulate
from jaxbandit.errors import BadInput
from jaxbandit.extraction.problem import Pull as QueryPull
from jaxbandit.live import Session
from jaxbandit.live.agent_laws import agent_of
from jaxbandit.live.case import Case
from jaxbandit.live.cleaning import CleaningQuestions
from jaxbandit.live.forecast import forecast, told_by
from jaxbandit.live.journal import Journal
from jaxbandit.live.play import Play
from jaxbandit.live.questions import questions
from jaxbandit.outliers.problem import Pull as OutlierPull
from jaxbandit.random.stream import stream
from jaxbandit.study.families import FAMILIES
from jaxbandit.study.spec import Study

SEED = 5
PROBLEMS: dict[str, dict[str, Any]] = {
    "cleaning": {"kind": "cleaning/synthetic", "entities": 12, "budget": 60, "false_values": {"uniform": [0, 6]}},
    "topk": {"kind": "topk/bernoulli", "n": 12, "K": 3, "budget": 240},
    "outliers": {"kind": "outliers/synthetic", "n": 12, "budget": 120},
    "extraction": {"kind": "extraction/table", "attributes": ["place", "kind"], "budget": 6.0, "entity": "name"},
}
GIVEN: dict[str, dict[str, Any]] = {"ee": {"t": 3, "q": 0.6}, "epsilon-greedy": {"epsilon": 0.5}}
LIVE = [
    (family, name) for family, found in FAMILIES.items() for name, kind in found.policies.items() if not kind.reference
]


def study(family: str, policy: str, folder: Path, **problem: Any) -> dict[str, Any]:
    given = {**PROBLEMS[family], **problem}
    if family == "extraction":
        lines = [f"cafe {n},{'PS'[n % 2]}/{'abc'[n % 3]},{'xy'[n % 5 > 2]}" for n in range(40)]
        (folder / "cafes.csv").write_text("name,place,kind\n" + "\n".join(lines) + "\n")
        given["path"] = str(folder / "cafes.csv")
    return {"seed": SEED, "problem": given, "policy": [{"kind": policy, **GIVEN.get(policy, {})}]}


def agent(session: Session) -> Callable[[Any], str]:
    """Answers from the draws that the simulator makes one by one, as texts, by address."""
    setting, key = session.case.chosen.setting, stream(SEED, 0)
    if session.asks.family == "extraction":
        problem = setting.problem()
        names, nodes = setting.domain.names, setting.domain
    else:
        problem = setting.problem(on_tape=True)
    instance = problem.draw(key)
    pulled = jax.jit(lambda pull: problem.pull(key, instance, pull))

    def answer(address: Any) -> str:
        if session.asks.family == "cleaning":
            outcome = pulled(CleaningPull(*map(jnp.int32, (*address, 1, 1, 1))))
            values = session.asks.shown(address, session.answers)["values"]
            return values[-1] if outcome.removed else "unknown"
        if session.asks.family == "topk":
            arm, number = address
            return str(
                float(pulled(ArmPull(*(jnp.array([x], jnp.int32) for x in (arm, number, 1)), jnp.int32(1))).total[0])
            )
        if session.asks.family == "outliers":
            return str(int(pulled(OutlierPull(*map(jnp.int32, address)))))
        node, configuration, number, _ = address
        exclude = session.asks.shown(address, session.answers)["query"]["exclude"]
        listed = np.full(session.asks._view.l_max, -1, np.int32)  # type: ignore[attr-defined]
        listed[: len(exclude)] = [names.index(each) for each in exclude]
        found = pulled(
            QueryPull(*map(jnp.int32, (node, configuration)), jnp.asarray(listed), jnp.int32(number), jnp.bool_(True))
        )
        cafes = [f"{names[each]} @ {nodes.name(nodes.leaf[each])}" for each in found.entity.tolist() if each >= 0]
        return "; ".join(cafes) or "none"

    return answer


def simulated(session: Session) -> tuple[str, int]:
    """The hash of all pulls and outcomes of the rule's run in the simulator, and how many there are."""
    chosen, key = session.case.chosen, stream(SEED, 0)
    problem = chosen.problem if session.asks.family == "extraction" else chosen.setting.problem(on_tape=True)
    policy = chosen.policy
    instance = problem.draw(key)

    @jax.jit
    def step(state: Any) -> Any:
        view = problem.view(key, instance)
        pull = policy.ask(view, state)
        outcome = problem.pull(key, instance, pull)
        state = policy.tell(view, state, pull, outcome)
        return pull, outcome, state, policy.done(view, state)

    state, over, digest, steps = jax.jit(lambda: policy.init(problem.view(key, instance)))(), False, b"", 0
    while not over:
        pull, outcome, state, over = step(state)
        chain = hashlib.sha256(digest)
        for leaf in jax.tree.leaves((pull, outcome)):
            chain.update(np.asarray(leaf).tobytes())
        digest, steps = chain.digest()[:16], steps + 1
    return digest.hex(), steps


def run_out(session: Session, answer: Callable[[Any], str], ahead: int = 0, agents: int = 1) -> None:
    """Answers what is asked until nothing is; ``agents`` hold a question each, and the last one answers first."""
    for _ in range(10_000):
        held = []
        for number in range(agents):
            asked = session.next(f"agent {number}", ahead=ahead)
            if "id" in asked:
                held.append(asked["id"])
        if not held:
            assert asked["over"]
            return
        for number in reversed(held):
            session.record(number, answer(session.questions[number].address))
    raise AssertionError("it does not end")


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), LIVE)
def test_a_session_decides_as_the_simulator_does(family: str, name: str, tmp_path: Path) -> None:
    """Pull by pull, on the same draws; of CRUX the entities have other numbers, and only the totals are compared."""
    session = Session.begin(study(family, name, tmp_path), name, tmp_path / "journal")
    run_out(session, agent(session))
    chosen = session.case.chosen
    if family == "extraction":
        expected = simulate(
            chosen.problem, chosen.policy, runs=1, seed=SEED, implementation="reference", progress=False
        )
        found = session.play.answer()
        for key in ("queries", "spent", "entities", "configurations"):
            np.testing.assert_array_equal(found[key], expected[key][0, 0])
        assert session.status()["entities"] == expected["entities"][0, 0] > 3
        return
    digest, steps = simulated(session)
    assert (session.play.trace(session.play.steps), session.play.steps) == (digest, steps)
    assert steps > 0
    assert session.play.over


@pytest.mark.parametrize("budget", [2.4, 3.3, 6.0])
def test_money_is_counted_in_whole_units(budget: float, tmp_path: Path) -> None:
    """As floats, costs of 0.6 and 0.3 sum to a little more than the budget, and the last query would be too dear."""
    given = study("extraction", "rand-leaf", tmp_path, budget=budget, cost_model="step")
    session = Session.begin(given, "rand-leaf", tmp_path / "journal")
    answer = agent(session)
    for _ in range(9):  # what is taken back leaves nothing behind
        asked = session.next()
        session.record(asked["id"], answer(session.questions[asked["id"]].address))
        session.undo()
    assert session.spent == 0
    assert session.status()["left"] == budget
    run_out(session, answer)
    chosen = session.case.chosen
    expected = simulate(chosen.problem, chosen.policy, runs=1, seed=SEED, implementation="reference", progress=False)
    found = session.play.answer()
    for key in ("queries", "spent", "entities"):
        np.testing.assert_array_equal(found[key], expected[key][0, 0])
    assert session.status()["spent"] == int(found["spent"]) / session.asks.units


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.begin(study("cleaning", "ee", tmp_path), "ee", tmp_path / "journal")


def again(session: Session) -> Session:
    return Session.open(session.journal.place)


@pytest.mark.parametrize(("name", "ahead", "agents"), [("ee", 6, 3), ("greedy", 4, 2)])
def test_questions_ahead_change_no_decision(name: str, ahead: int, agents: int, tmp_path: Path) -> None:
    """They may be paid in vain, and then the budget ends sooner: what was decided is a part of the run without."""
    alone = Session.begin(study("cleaning", name, tmp_path), name, tmp_path / "alone")
    run_out(alone, agent(alone))
    several = Session.begin(study("cleaning", name, tmp_path), name, tmp_path / "several")
    run_out(several, agent(several), ahead, agents)
    steps = several.play.steps
    assert several.play.trace(steps) == alone.play.trace(steps)
    assert 0.8 * alone.play.steps < steps <= alone.play.steps
    assert several.spent <= several.budget
    order = [row["id"] for row in several.told()]
    assert order != sorted(order)


def test_what_looking_ahead_gains_and_costs() -> None:
    """Of ten agents, more than one is at work, for a few answers that are paid in vain."""
    alone, ahead = (measured("ee", many, 100, 1) for many in (0, 10))
    assert alone["paid"] == 0
    assert ahead["at_once"] > 1.8 * alone["at_once"]
    assert 0 < ahead["paid"] < 0.08
    assert ahead["removed"] > 0.95 * alone["removed"]


@pytest.mark.parametrize(
    ("family", "name"),
    [("cleaning", "ee"), ("topk", "lucb"), ("outliers", "rr"), ("extraction", "bfs")],
)
def test_what_an_answer_needs_can_be_compiled_before_it(family: str, name: str, tmp_path: Path) -> None:
    session = Session.begin(study(family, name, tmp_path), name, tmp_path / "journal")
    step = session.play._step.func.compiled
    step.clear_cache()
    before = jax.tree.map(np.asarray, session.play.state)
    session.play.prepare()
    assert step._cache_size() == 1
    jax.tree.map(np.testing.assert_array_equal, before, session.play.state)
    answer = agent(session)
    while session.play.steps < 3:
        number = session.next()["id"]
        session.record(number, answer(session.questions[number].address))
    assert step._cache_size() == 1


def test_an_open_question_is_not_asked_again_when_its_time_comes(session: Session) -> None:
    """One agent keeps a question that was asked ahead, and others come to where the policy needs its answer."""
    answer = agent(session)
    session.next("first")
    kept = session.next("slow", ahead=5)["id"]
    while "id" in (asked := session.next("first", ahead=5)):
        session.record(asked["id"], answer(session.questions[asked["id"]].address))
    assert session.questions[kept].address in session.play.wanted()
    assert len({each.address for each in session.questions.values()}) == len(session.questions)
    assert asked["open"] == 1


def test_several_processes_share_a_journal(session: Session) -> None:
    """Two objects that do not know of each other, as processes are."""
    other, answer = again(session), agent(session)
    for number in range(20):
        one, two = (session, other) if number % 2 else (other, session)
        asked = one.next("a")
        assert two.next("b").get("id") != asked["id"]
        two.record(asked["id"], answer(two.questions[asked["id"]].address))
    third = again(session)
    assert session.status() == other.status() == third.status()
    assert third.play.trace(third.play.steps) == session.play.trace(session.play.steps)


@pytest.mark.parametrize("name", ["status", "forecast", "advice", "told", "changes", "over"])
def test_what_a_thread_reads_no_other_one_changes_meanwhile(name: str, tmp_path: Path) -> None:
    problem = {"kind": "outliers/injected", "n": 20, "budget": 99}  # which have no forecast
    session = Session.begin({"problem": problem, "policy": [{"kind": "gold"}]}, "gold", tmp_path / "journal")
    found: list[Any] = []

    def read() -> None:
        value = getattr(session, name)
        found.append(value() if callable(value) else value)

    reader = threading.Thread(target=read)
    with session._lock:
        reader.start()
        reader.join(0.3)
        assert not found
    reader.join()
    assert len(found) == 1


def test_a_status_is_of_one_moment(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that another thread records meanwhile comes after it."""
    asked, begun = session.next("a"), threading.Event()
    own = CleaningQuestions.found

    def found(*given: Any) -> dict[str, Any]:
        begun.set()
        recording.join(0.3)
        return own(*given)

    def record() -> None:
        begun.wait()
        session.record(asked["id"], "unknown", "a")

    monkeypatch.setattr(CleaningQuestions, "found", found)
    recording = threading.Thread(target=record)
    recording.start()
    before = session.status()
    recording.join()
    assert (before["cleans"], before["answers"], before["spent"], before["open"]) == (0, 0, 0, 1)
    assert session.status()["answers"] == 1


def test_a_forecast_is_of_the_moment_at_which_it_began(session: Session) -> None:
    asked, play = session.next("a"), session._now()[2]
    session.record(asked["id"], "unknown", "a")
    assert (play.answers, play.told, play.steps) == ({}, {}, 0)


def test_a_question_is_one_agents_until_its_lease_ends(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    first = session.next("a", lease=60)
    assert session.next("a", lease=60)["id"] == first["id"]
    assert session.next("b") == {"family": "cleaning", "spent": 0, "left": 60, "over": False, "open": 1}
    later = time.time() + 61
    monkeypatch.setattr("jaxbandit.live.journal.time.time", lambda: later)
    assert session.next("b")["id"] == first["id"]
    session.record(first["id"], "unknown", "a")  # late, but nobody was faster
    assert session.status()["answers"] == 1


@pytest.mark.parametrize("first", [False, True], ids=["now", "a journal of the first ones"])
def test_a_clock_that_is_set_back_keeps_no_question(
    session: Session, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease begins when the next agent asks. So it does in a journal that did not say how long a lease is."""
    now = time.time()
    if first:
        with sqlite3.connect(session.journal.place) as database:
            database.execute("ALTER TABLE jaxbandit_lease DROP COLUMN seconds")
        session = again(session)
    monkeypatch.setattr("jaxbandit.live.journal.time.time", lambda: now + 1e8)
    asked = session.next("a", lease=60)
    for seconds, there in ((0, False), (59, False), (61, True)):
        monkeypatch.setattr("jaxbandit.live.journal.time.time", lambda seconds=seconds: now + seconds)
        assert (session.next("b").get("id") == asked["id"]) == there


def test_an_answer_is_told_once(session: Session) -> None:
    asked = session.next()
    assert session.record(asked["id"], asked["values"][0])["recorded"]
    assert not session.record(asked["id"], "#1")["recorded"]
    with pytest.raises(BadInput, match="ID = 1: a question that is open; this one has the answer value 1"):
        session.record(asked["id"], "unknown", "a liar")
    status = again(session).status()
    assert status["contradicted"] == {"a liar": 1}
    assert (status["answers"], status["removed"], status["late"], status["spent"]) == (1, 1, 1, 1)


HALF = "\ud800"
REFUSED = [
    ("cleaning", "ee", {}, ["#²", "#٣", f"#{'9' * 5000}", "#0", "#", "", HALF, "a\0"]),
    ("topk", "uniform", {}, ["²", "٣", "2", "1_0", "nan", "9" * 5000, HALF]),
    ("topk", "uniform", {"kind": "topk/gaussian"}, ["nan", "1e16", "-inf", "1_0", "٣"]),
    ("extraction", "rand-leaf", {}, [
        '[{"name":"","at":null}]', '[{"name":NaN}]', '[{"name":1}]', f'[{{"name":"{HALF}"}}]', '[{"name":"\\ud800"}]',
        '[{"name":"a","at":["a"]}]', '[{"name":"a","at":{}}]', '[{"name":"a","at":1}]', "[1]", "[" * 5000, "none;none",
        "none; a", "None; a", "a;NONE", "@", " ; ", "@ PS", f"{HALF} @ PS", '[{"at":null}]', "[" * 900 + "]" * 900,
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("family", "name", "problem", "answers"), REFUSED)
def test_answers_that_are_none(
    family: str, name: str, problem: dict[str, Any], answers: list[str], tmp_path: Path
) -> None:
    """One line each, which can be printed, and nothing is written."""
    session = Session.begin(study(family, name, tmp_path, **problem), name, tmp_path / "journal")
    asked = session.next()
    for answer in answers:
        with pytest.raises(BadInput, match=r"\AANSWER = ") as caught:
            session.record(asked["id"], answer)
        assert len(str(caught.value).encode().splitlines()) == 1
    for number in ("9" * 5000, 10**5000, "²", True, None, [1]):
        with pytest.raises(BadInput, match=r"\AID = .*a question of this session: 1 to 1"):
            session.record(number, "1")  # type: ignore[arg-type]
    for agent in (HALF, "a\0", 3):
        with pytest.raises(BadInput, match=r"\Aagent = "):
            session.record(asked["id"], "1", agent)  # type: ignore[arg-type]
    assert again(session).status() | {"over": False} == session.status() | {"answers": 0, "open": 1}


@pytest.mark.parametrize("top", [0.7, 0.9, 2.2, 12.3])
def test_the_lowest_and_the_highest_reward_of_a_record_are_answers(top: float, tmp_path: Path) -> None:
    """Bounds are float32 numbers, of which 0.1 is a little above the 0.1 of an answer."""
    path = tmp_path / "past.csv"
    path.write_text("arm,reward\n" + "".join(f"{arm},{value}\n" for arm in "ab" for value in (0.1, 0.4, top)))
    problem = {"kind": "topk/replay", "path": str(path), "reward": "reward", "K": 1, "budget": 9}
    session = Session.begin({"problem": problem, "policy": [{"kind": "uniform"}]}, "uniform", tmp_path / "journal")
    for value in ("0.1", str(top)):
        assert session.record(session.next()["id"], value)["answer"] == float(value)
    for value in ("0.0999", str(top + 0.001), "1e300", "-1e300", "nan", "inf"):
        with pytest.raises(BadInput, match=rf"ANSWER = {value}\d*: a number from 0\.1 to {top:g}"):
            session.record(session.next()["id"], value)


def test_none_in_capitals_is_no_entity(tmp_path: Path) -> None:
    """Also at a leaf, where names need no node; an entity may still have that name."""
    session = Session.begin(study("extraction", "rand-leaf", tmp_path), "rand-leaf", tmp_path / "journal")
    for entities, answer in ((0, " None"), (0, "NONE"), (1, "None @ {}")):
        asked = session.next()
        assert asked["allowed"] == ["none", "NAME; NAME"]
        session.record(asked["id"], answer.format(asked["query"]["node"]))
        assert session.status()["entities"] == entities


def test_one_entity_is_no_entities(tmp_path: Path) -> None:
    problem = study("extraction", "rand-leaf", tmp_path, configurations=[[1, 0]])
    session = Session.begin(problem, "rand-leaf", tmp_path / "journal")
    asked = session.next()
    assert asked["how"].startswith("at most 1 entity as NAME")
    assert f"1 entity of {asked['query']['node']}" in question(asked)
    with pytest.raises(BadInput, match=r"ANSWER = 2 entities: at most 1 entity\Z"):
        session.record(asked["id"], "Zoë; Max")
    session.record(asked["id"], "Zoë")
    assert session.next()["why"] == "query 2; 1 entity is known"


def test_one_answer_is_no_answers(tmp_path: Path) -> None:
    claims(tmp_path)
    session = Session.begin(tmp_path / "study.toml", "random", tmp_path / "claims")
    while "id" in (asked := session.next()):
        session.record(asked["id"], asked["values"][-1] if asked["why"].startswith("operation 2") else "unknown")
    whys = {session.asks.shown(each.address, session.answers)["why"] for each in session.questions.values()}
    assert "operation 2 on this entity; 0 of its values are ruled out, 1 answer failed" in whys
    assert "operation 3 on this entity; 1 of its values is ruled out, 1 answer failed" in whys
    arms = {"problem": {**PROBLEMS["topk"], "n": 2, "K": 1, "budget": 4}, "policy": [{"kind": "uniform"}]}
    session = Session.begin(arms, "uniform", tmp_path / "arms")
    while "id" in (asked := session.next()):
        session.record(asked["id"], "1")
    assert asked["over"]
    whys = {session.asks.shown(each.address, session.answers)["why"] for each in session.questions.values()}
    assert whys == {
        "pull 1 of this arm; it has given 0 rewards", "pull 2 of this arm; it has given 1 reward, 1 on average"
    }  # fmt: skip


def test_an_answer_is_named_as_an_agent_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = study("extraction", "rand-leaf", tmp_path)
    session = Session.begin(problem, "rand-leaf", tmp_path / "journal")
    asked = session.next()
    told = f"Zoë @ {asked['query']['node']}"
    session.record(asked["id"], "Zoë")
    with pytest.raises(BadInput, match=f"this one has the answer {told}$"):
        session.record(asked["id"], "none")
    Undo(str(tmp_path / "journal"))()
    assert f"the answer {told} is taken back" in capsys.readouterr().out


def test_undo(session: Session) -> None:
    answer = agent(session)
    for _ in range(9):
        asked = session.next()
        session.record(asked["id"], answer(session.questions[asked["id"]].address))
    before, answers = session.play.trace(session.play.steps), dict(session.answers)
    wrong = session.next()
    session.record(wrong["id"], "unknown" if answer(session.questions[10].address) != "unknown" else wrong["values"][0])
    withdrawn = session.next()["id"]
    with pytest.raises(BadInput, match=f"ID = 1: {wrong['id']}, the question that was answered last"):
        session.undo(1)
    assert session.undo(wrong["id"]).items() >= {"id": wrong["id"], "undone": True}.items()
    assert session.undo(wrong["id"]).items() >= {"id": wrong["id"], "undone": False}.items()  # said again
    for each in (session, again(session)):
        assert (each.play.trace(each.play.steps), each.answers) == (before, answers)
        for number in (wrong["id"], withdrawn):
            with pytest.raises(BadInput, match=r"a question that is open; this one was (undone|withdrawn)"):
                each.record(number, "unknown")
    fresh = session.next()
    assert fresh["id"] > withdrawn
    own = {"id": 0, "key": "", "until": 0}
    assert fresh["key"] != wrong["key"]
    assert {**fresh, **own} == {**wrong, **own}


def test_a_damaged_journal_is_refused(session: Session) -> None:
    for answer in ("unknown", "#1", "#1"):
        session.record(session.next()["id"], answer)
    session.close()
    with sqlite3.connect(session.journal.place) as database:
        database.execute("UPDATE jaxbandit_event SET content = replace(content, 'unknown', 'value 2') WHERE number = 2")
    with pytest.raises(BadInput, match="an undamaged journal; event 2 was changed or lost"):
        again(session)


@pytest.mark.parametrize("damage", [
    "UPDATE jaxbandit_session SET value = replace(value, '60', '90') WHERE key = 'study'",
    "UPDATE jaxbandit_session SET value = 'random' WHERE key = 'label'",
    "UPDATE jaxbandit_session SET value = '{' WHERE key = 'study'",
    "UPDATE jaxbandit_session SET value = '[]' WHERE key = 'files'",
    "DELETE FROM jaxbandit_session WHERE key = 'files'",
    "DELETE FROM jaxbandit_session WHERE key = 'write_back'",
])  # fmt: skip
@pytest.mark.parametrize("first", [False, True])
def test_a_damaged_head_is_refused(session: Session, damage: str, first: bool) -> None:
    """With the first event, before there is one; and of the first journals, which had no hash of it, what cannot be
    read."""
    if first:
        session.next()
    session.close()
    with sqlite3.connect(session.journal.place) as database:
        database.execute(damage)
    with pytest.raises(BadInput, match=r"an undamaged journal; its head was changed or lost"):
        again(session)
    with sqlite3.connect(session.journal.place) as database:
        database.execute("DELETE FROM jaxbandit_session WHERE key = 'hash'")
    if first or "'{'" in damage or "[]" in damage or "DELETE" in damage:
        with pytest.raises(BadInput, match=r"^place = .*: an undamaged journal; "):
            again(session)


def test_a_journal_whose_tables_have_no_names_is_refused(session: Session) -> None:
    """SQLite complains of them with their names, which are no UTF-8."""
    session.close()
    place = Path(session.journal.place)
    place.write_bytes(
        place.read_bytes().replace(b"CREATE TABLE", b"CREATE TAB\xff\xfe").replace(b"jaxbandit_", b"jaxb\xffndit_")
    )
    with pytest.raises(BadInput, match=r"^place = .*: a database that answers \(it is damaged\)"):
        Session.open(place)


def test_a_journal_is_where_its_name_says(tmp_path: Path) -> None:
    """Names that a URL would read otherwise; and a file that is empty is looked at, and no more."""
    place = tmp_path / "a?b=c%20d#e"
    Session.begin(study("topk", "uniform", tmp_path), "uniform", place).close()
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in tmp_path.iterdir()} == {place.name}
    (tmp_path / "empty").touch()
    with pytest.raises(BadInput, match="a journal that `jaxbandit live begin` made"):
        Session.open(tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == b""


def test_a_journal_without_a_hash_of_its_head(session: Session) -> None:
    """The first ones had none; they go on."""
    session.close()
    with sqlite3.connect(session.journal.place) as database:
        database.execute("DELETE FROM jaxbandit_session WHERE key = 'hash'")
    old = again(session)
    old.record(old.next()["id"], "unknown")
    assert again(old).status()["answers"] == 1


def test_another_version_does_not_go_on_in_silence(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that has t = 2 would have left the first entity after two failures."""
    for _ in range(4):
        session.record(session.next()["id"], "unknown")
    table = {**session.case.table, "policy": {**session.case.table["policy"], "t": 2, "q": 0}}
    head = Journal.head
    monkeypatch.setattr(Journal, "head", lambda self: {**head(self), "study": json.dumps(table)})
    with pytest.raises(BadInput, match=r"of a version that decides the same: question \d was asked by"):
        again(session)


def claims(folder: Path) -> dict[str, Any]:
    rows = [f"f{flight},{value}" for flight in range(9) for value in range(1 + flight % 4)]
    (folder / "claims.csv").write_text("flight,gate\n" + "\n".join(rows) + "\n")
    problem = {"kind": "cleaning/table", "path": "claims.csv", "entity": "flight", "value": "gate", "budget": 12}
    (folder / "study.toml").write_text(
        "[problem]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in problem.items())
        + '\n[[policy]]\nkind = "random"\n[[policy]]\nkind = "ee"\nt = [2, 3]\nq = 0.6\n'
    )  # fmt: skip
    return problem


def test_a_table_may_go_but_not_change(tmp_path: Path) -> None:
    """The journal has its content, so that another machine can go on."""
    claims(tmp_path)
    session = Session.begin(tmp_path / "study.toml", "random", tmp_path / "journal")
    asked = session.next()
    assert asked["entity"].startswith("f")
    assert asked["allowed"] == [*asked["values"], "unknown"]
    (tmp_path / "claims.csv").rename(tmp_path / "gone.csv")
    assert again(session).next("")["open"] == 1
    (tmp_path / "claims.csv").write_text("flight,gate\nf1,1\nf1,2\n")
    with pytest.raises(BadInput, match="as it was when the session began"):
        again(session)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    claims(tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        status = program.run(["live", *words])
        return status, *capsys.readouterr()

    place = ("--journal", "journal")
    assert run("begin", "study.toml", "--policy", "random", *place, "--set", "budget=7")[0] == 0
    asked = json.loads(run("next", *place, "--json")[1])
    assert {"id", "family", "entity", "values", "allowed", "spent", "left"} <= set(asked)
    assert (asked["spent"], asked["left"]) == (0, 7)
    assert run("next", *place)[1].startswith("question 1 (0 spent, 7 left)")
    assert run("record", *place, "1", asked["allowed"][0])[1] == "question 1: recorded; 1 spent, 6 left\n"
    status = json.loads(run("status", *place, "--json")[1])
    assert {"spent": 1, "left": 6, "answers": 1, "removed": 1, "share": 1 / 12}.items() <= status.items()
    assert "is taken back; 0 spent, 7 left" in run("undo", *place)[1]
    assert "was taken back before; 0 spent, 7 left" in run("undo", *place, "--id", "1")[1]
    begin = ("begin", "study.toml", "--journal", "k")
    for words, line in (
        (("record", *place, "9", "unknown"), "ID = 9: a question of this session: 1 to 1"),
        (("record", *place, "1", "unknown"), "ID = 1: a question that is open; this one was undone"),
        (("begin", "study.toml", "--policy", "random", *place), "--journal = journal: a place without a journal"),
        ((*begin, "--policy", "ee"), "--policy = ee: one of ee t=2 q=0.6, ee t=3 q=0.6"),
        ((*begin, "--policy", "random", "--set", "budget"), "--set = budget: KEY=VALUE"),
        ((*begin, "--policy", "random", "--set", "budget=0"), "problem.budget = 0: "),
        (("next", "--journal", "study.toml"), "--journal = study.toml: a database that answers"),
        (("next", "--journal", "none"), "--journal = none: a journal that `jaxbandit live begin` made"),
        (("next", "--journal", "mysql://a:secret@b/c"), "--journal = mysql://a:***@b/c: a file, or postgresql://"),
        (("next", *place, "--lease", "-1"), "--lease = -1.0: a number above 0, below 1e+09"),
        (("wait", *place), "verb = wait: one of begin, next, record, status"),
    ):
        status, out, error = run(*words)
        assert (status, out) == (2, "")
        assert error.startswith(f"jaxbandit: {line}")
    assert not (tmp_path / "none").exists()


RECORD, ANSWER, BEGIN = (
    ("record", "journal"),
    ("answer", "journal", "--agent", "terminal"),  # whose question it is
    ("begin", "new.db", "study.toml", "--policy", "random"),
)
SHEET, CHANGE, SERVE = ("sheet", "journal", "new.csv"), ("change", "journal", "--policy", "ee"), ("serve", "journal")
BYTE = os.fsdecode(b"\xff")  # as an argument that is no UTF-8 is read


@pytest.mark.parametrize(("words", "line"), [
    ((*RECORD, "1", "#²"), "ANSWER = #²: one of "),
    ((*RECORD, "9" * 5000, "unknown"), "ID = 999"),
    ((*RECORD, "1", "unknown", "--agent", BYTE), r"--agent = \udcff: a text in UTF-8, without NUL"),
    ((*RECORD, "1", "unknown", "--cost", "-1"), "--cost = -1.0: a number at least 0, below 1e+15"),
    (("next", "journal", "--agent", BYTE), r"--agent = \udcff: a text in UTF-8, without NUL"),
    (("next", "journal", "--ahead", "-1"), "--ahead = -1: a whole number from 0 to 10000"),
    ((*SERVE, "--lease=-5"), "--lease = -5.0: a number above 0"),
    ((*SERVE, "--lease=nan"), "--lease = nan: a number above 0"),
    ((*SERVE, "--ahead=-1"), "--ahead = -1: a whole number from 0 to 10000"),
    ((*SERVE, "--candidates", "http://[bad"), "--candidates = http://[bad: http://... or https://..."),
    ((*ANSWER, "--timeout", "-1"), "--timeout = -1.0: a number above 0"),
    ((*ANSWER, "--command", "echo unknown", "--timeout", "nan"), "--timeout = nan: a number above 0"),
    ((*ANSWER, "--command", r"printf '\377'"), r"--command = printf '\377': a command that prints an answer in UTF-8"),
    ((*ANSWER, "--command", "printf '#²'"), "--command = printf '#²': an agent that gives answers"),
    ((*ANSWER, "--url", "http://[bad"), "--url = http://[bad: http://... or https://..."),
    ((*ANSWER, "--url", "http://a b/"), "--url = http://a b/: http://... or https://..."),
    ((*ANSWER, "--url", "http://a:port/"), "--url = http://a:port/: http://... or https://..."),
    ((*ANSWER, "--reconcile", "http://"), "--reconcile = http://: http://... or https://..."),
    ((*SHEET, "--count", "-5"), "--count = -5: a whole number from 1 to 10000"),
    ((*SHEET, "--count", "0"), "--count = 0: a whole number from 1 to 10000"),
    ((*SHEET, "--count", "20000"), "--count = 20000: a whole number from 1 to 10000"),
    ((*SHEET, "--back"), "FILE.csv = new.csv: a file that can be read"),
    (("export", "journal", "--out", "journal"), "--out = journal: another file than the journal and the tables"),
    (("export", "journal", "--out", "link"), "--out = link: another file than the journal and the tables"),
    (("export", "journal", "--out", "claims.csv"), "--out = claims.csv: another file than the journal and the"),
    (("export", "journal", "--out", "."), "--out = .: a file, and this is a folder"),
    (("show", "journal", "--out", "../here/claims.csv"), "--out = ../here/claims.csv: another file than the journal"),
    ((*BEGIN, "--write-back", "nope"), "--write-back = nope: a table in the database of the journal"),
    ((*BEGIN, "--write-back", BYTE), r"--write-back = \udcff: a text in UTF-8"),
    ((*BEGIN, "--set", f"value={BYTE}"), r"--set = value=\udcff: a text in UTF-8"),
    ((*BEGIN, "--set", "budget=5", "--set", "budget=6"), "--set = budget=6: budget once"),
    ((*BEGIN, "--set", f"budget={'[' * 100_000}"), "problem.budget = [[["),
    ((*BEGIN, "--set", f"budget={'[' * 900}{']' * 900}"), "problem.budget = [[["),
    ((*BEGIN, "--set", "budget=null"), "problem.budget = None: a whole number from 1"),
    ((*BEGIN, "--set", r'path="\u0000"'), "problem.path = "),
    ((*BEGIN, "--set", "entity=nobody"), "problem.entity = nobody: no such column; there are flight, gate"),
    ((*BEGIN, "--set", "path=ragged.csv"), "problem.path = ragged.csv: line 2 has 1 cell,"),
    *(((*BEGIN, "--set", f"{name}=topk/bernoulli"), f"--set {name} = topk/bernoulli: a parameter of cleaning/table: ")
      for name in ("kind", "study", "policy", "place", "cls", "self")),
    ((*BEGIN, "--set", "write_back=claims"), "--set write_back = claims: a parameter of the problem"),
    (("next", "x" * 300), "--journal = xxxxx"),
    (("begin", "x" * 300, "study.toml", "--policy", "random"), "--journal = xxxxx"),
    (("begin", "://", "study.toml", "--policy", "random"), "--journal = ://: a file, or postgresql://user@host/database"),
    (("begin", "postgresql://u:secret@h:port/z", "study.toml", "--policy", "random"),
     "--journal = postgresql://u:***@h:port/z: a file, or postgresql://user@host/database"),
    (("next", "postgresql://u:one@127.0.0.1:1/z?sslpassword=two&password=three"),
     "--journal = postgresql://u:***@127.0.0.1:1/z?password=***&sslpassword=***: a database that answers"),
    ((*CHANGE, "--set", "t=[1,2]"), "--set t = [1, 2]: one value, and not a list of them"),
    *(((*CHANGE, "--set", f"{name}=greedy"), f"--set {name} = greedy: a parameter of ee: t, q, ")
      for name in ("kind", "policy", "self", "path")),
    (("change", "journal", "--policy", "trained", "--set", "path=none"), "policy.path = none: a file that can be read"),
])  # fmt: skip
def test_what_the_command_refuses(
    words: tuple[str, ...], line: str, begun: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line that names the option, without a trace of it in the folder."""
    monkeypatch.chdir(begun)
    before = holding(begun)
    verb, place, *more = words
    assert program.run(["live", verb, "--journal", place, *more]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"jaxbandit: {line}")
    assert error.count("\n") == 1
    assert "/tmp" not in error
    assert holding(begun) == before


def holding(folder: Path) -> dict[str, Any]:
    """What the files of a folder hold: of the journal, whose file changes as SQLite likes, its events."""
    found: dict[str, Any] = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix}
    with sqlite3.connect(folder / "journal") as database:
        return found | {"events": database.execute("SELECT * FROM jaxbandit_event").fetchall()}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and a session of it that has asked a question."""
    folder = tmp_path_factory.mktemp("begun") / "here"
    folder.mkdir()
    claims(folder)
    (folder / "ragged.csv").write_text("flight,gate\nf1\n")
    (folder / "link").symlink_to("journal")
    session = Session.begin(folder / "study.toml", "random", folder / "journal")
    session.next("terminal")
    session.close()
    return folder


@pytest.mark.slow
def test_the_forecast_is_right_on_average(tmp_path: Path) -> None:
    """What sessions remove from the middle on is what was forecast there."""
    differences = []
    drawn = jax.jit(lambda tape, key, instance, pull: tape.pull(key, instance, pull))
    for seed in range(30):
        given = study("cleaning", "ee", tmp_path, entities=60, budget=80) | {"seed": seed}
        chosen, key = Case.of(Study.of(given, counted=False), "ee", {}).chosen, stream(seed, 0)
        asks = questions(chosen.setting, chosen.problem, chosen.policy, key)
        assert isinstance(asks, CleaningQuestions)
        play, tape = Play(chosen.problem, chosen.policy, key, asks, {}), chosen.setting.problem(on_tape=True)
        instance = tape.draw(key)
        while not play.over:
            if len(play.answers) == 33:
                found = forecast(asks, play, chosen, 80 - 33, seed)
                before = asks.found(play.answers, {})["removed"]
            address = next(play.wanted())
            success = drawn(tape, key, instance, CleaningPull(*map(jnp.int32, (*address, 1, 1, 1)))).removed
            play.tell(address, asks.shown(address, play.answers)["values"][0] if success else "unknown")
        differences.append(asks.found(play.answers, {})["removed"] - before - found["removed"])
    error = np.std(differences, ddof=1) / len(differences) ** 0.5
    assert abs(np.mean(differences)) < 3.5 * error < 3.5


def test_the_agent_is_learnt_from() -> None:
    """Records of an agent that is right in four of five; too few of them, or all alike, tell nothing."""
    rng = np.random.default_rng(0)
    gained = rng.binomial(6, rng.beta(8, 2, 300))
    records = {entity: (int(own), int(6 - own)) for entity, own in enumerate(gained)}
    agent = told_by(records)
    assert agent is not None
    assert agent.best.mean() == pytest.approx(0.8, abs=0.03)
    assert told_by({entity: records[entity] for entity in range(19)}) is None
    assert told_by(dict.fromkeys(range(50), (0, 3))) is None


def test_the_laws_that_an_agent_may_have_are_as_many_as_its_answers_leave() -> None:
    """Their means and concentrations scatter as those of agents with such records do, and lie around the agent's."""
    rng = np.random.default_rng(0)
    ranks = []
    for _ in range(60):
        m, rho = rng.random(2)
        made = rng.integers(1, 6, 40)
        gained = rng.binomial(made, rng.beta(m * (1 / rho - 1), (1 - m) * (1 / rho - 1), 40))
        agent = agent_of(gained, made)
        if agent is not None:
            means = [law.mean() for law in agent.likely]
            sizes = [law.alpha + law.beta for law in agent.likely]
            ranks.append([np.mean(np.array(means) < m), np.mean(np.array(sizes) < 1 / rho - 1)])
    # Under these priors the agent's own place among its posterior's draws is uniform.
    assert len(ranks) > 40
    for own in np.array(ranks).T:
        assert stats.kstest(own, "uniform").pvalue > 0.01
        assert np.mean((own > 0.1) & (own < 0.9)) == pytest.approx(0.8, abs=0.15)
    many = rng.binomial(6, rng.beta(8, 2, 3000))
    sure = agent_of(many, np.full(3000, 6))
    assert sure is not None
    assert np.std([law.mean() for law in sure.likely]) < 0.01 < np.std([law.mean() for law in agent.likely])
