"""Studies on a cluster: chunks are computed elsewhere, workers are lost, and the results have the same bits."""

import concurrent.futures
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from jaxbandit.errors import BadInput
from jaxbandit.progress import Status
from jaxbandit.study import chunks, folder
from jaxbandit.study import run as running
from jaxbandit.study.results import open_results
from jaxbandit.study.run import run
from jaxbandit.study.spec import Study

STUDY: dict[str, Any] = {
    "seed": 1,
    "runs": 3000,
    "problem": {"kind": "cleaning/synthetic", "entities": 1000, "budget": 400},
    "policy": [{"kind": "ee", "t": [2, 3], "q": 0.5}, {"kind": "greedy"}],
}


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    run(Study.of(STUDY), tmp_path / "whole")
    return tmp_path / "whole"


def same(one: Path, other: Path) -> bool:
    equal = (one / "summary.json").read_bytes() == (other / "summary.json").read_bytes()
    return equal and open_results(one).identical(open_results(other))


def test_a_worker_of_dask_is_killed(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two worker processes; once chunks come in, one of them is killed with work in its hands."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(chunks, "_FIRST_JOBS", 100)
    monkeypatch.setattr(chunks, "_SHORT", 0.0)
    killed: list[int] = []
    computed: list[int] = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):

        def progress(status: Status) -> None:
            computed.append(status.done)
            if status.done > 1000 and not killed:
                busy = [address for address, tasks in client.processing().items() if tasks]
                pids = client.run(os.getpid)
                killed.append(pids[(busy or list(pids))[0]])
                os.kill(killed[0], signal.SIGKILL)

        run(Study.of(STUDY), tmp_path / "cluster", progress, executor=client.get_executor(), in_flight=4)
    assert killed
    assert computed[-1] == 9000
    assert len(computed) > 20
    assert same(whole, tmp_path / "cluster")


def test_any_executor_will_do(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_FIRST_JOBS", 1000)
    started = threading.Barrier(2, timeout=60)
    once = threading.local()

    def both() -> None:
        if not hasattr(once, "met"):
            once.met = True
            started.wait()

    original = running.compute

    def compute(*given: Any) -> Any:
        both()
        return original(*given)

    monkeypatch.setattr(running, "compute", compute)
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        run(Study.of(STUDY), tmp_path / "threads", executor=executor)
    assert same(whole, tmp_path / "threads")


def test_what_a_worker_raises_is_raised_here_and_what_is_stored_stays(whole: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with (
        concurrent.futures.ProcessPoolExecutor(1, context, initializer=os._exit, initargs=(3,)) as executor,
        pytest.raises(concurrent.futures.process.BrokenProcessPool),
    ):
        run(Study.of(STUDY), tmp_path / "broken", executor=executor)
    run(Study.of(STUDY), tmp_path / "broken")
    assert same(whole, tmp_path / "broken")


@pytest.mark.parametrize("wrong", ["tcp://head:8786", 5, concurrent.futures.ThreadPoolExecutor])
def test_what_is_no_executor_is_refused_before_anything_is_written(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^executor = .*: None, or an object with submit"):
        run(Study.of(STUDY), tmp_path / "none", executor=wrong)
    assert not (tmp_path / "none").exists()


def forked_pool() -> Any:
    return concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork"))


def test_an_executor_of_forks_is_refused_as_it_would_hang(tmp_path: Path) -> None:
    line = r"^executor = ProcessPoolExecutor of forked processes: one made with mp_context=multiprocessing"
    with forked_pool() as executor, pytest.raises(BadInput, match=line):
        run(Study.of(STUDY), tmp_path / "out", executor=executor)
    assert not (tmp_path / "out").exists()


def test_a_worker_with_another_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "package", lambda: ("0.1.0", "0123456789ab"))
    line = r"^a worker's jaxbandit = .* [0-9a-f]{12}: 0.1.0 0123456789ab, as where the results are kept$"
    with concurrent.futures.ThreadPoolExecutor(1) as executor, pytest.raises(BadInput, match=line):
        run(Study.of(STUDY), tmp_path / "out", executor=executor)


def test_what_is_wrong_with_the_input_can_be_sent_to_another_process() -> None:
    error = BadInput("runs", [0, "x"], "a number")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.field, again.allowed) == (BadInput, str(error), "runs", "a number")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_fork_is_refused_and_holds_no_lock(tmp_path: Path) -> None:
    """A fork that outlives its parent would keep the parent's folder locked."""
    code = """
import os, sys, time, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from jaxbandit import BadInput, cleaning
from jaxbandit.devices import use_all_cores
from jaxbandit.study import folder
use_all_cores()
with folder.claimed(Path(sys.argv[1]), {"a": 1}, {}):
    if not os.fork():
        try:
            cleaning.synthetic(budget=5, entities=9, false_values=[0, 1], sc_pdf=cleaning.Uniform())
        except BadInput as error:
            print(error, flush=True)
        time.sleep(60)
    os.wait3(os.WNOHANG)
    time.sleep(2)
    os._exit(0)
"""
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    said = child.stdout.readline()
    assert said.startswith("process = a fork of one that has used jaxbandit: one that is spawned, ")
    child.wait(30)
    with folder.claimed(tmp_path / "out", {"a": 1}, {}):
        pass
    child.stdout.close()
