"""The command line, stopped at random moments by Ctrl-C, by two of them and by SIGTERM.

``python -m tests.interruptions --times 100`` stops each verb a hundred times in each way; ``test_cli.py`` does so a few
times. Programs are compiled anew each time, since most of what was interrupted wrongly was interrupted there.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOW = {"SIGINT": [signal.SIGINT], "twice": [signal.SIGINT, signal.SIGINT], "SIGTERM": [signal.SIGTERM]}
LATEST = {"run": 8.0, "reproduce": 8.0, "tune": 8.0, "compare": 2.0}
"""Seconds to the latest moment: the first three compile for longer, the last is over soon."""

# The program itself, which says when it has come as far as to take signals: before, they are Python's.
_PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would this one
from jaxbandit import cli
watch = cli.interruption.watch
def announced():
    watch()
    print("watching", flush=True)
cli.interruption.watch = announced
sys.exit(cli.main())
"""

_RUN = """
runs = 40
[problem]
kind = "topk/bernoulli"
n = 12
K = 3
means = "uniform"
budget = 200
[[policy]]
kind = "uniform"
[[policy]]
kind = "sar"
[[policy]]
kind = "lucb"
"""

_TUNE = """
runs = 1
[problem]
kind = "cleaning/synthetic"
[[policy]]
kind = "ee"
[sweep]
budget = [500, 600, 700]
"""


def prepare(place: Path) -> dict[str, list[str]]:
    """Writes what the verbs need to ``place``; returns their command lines."""
    (place / "run.toml").write_text(_RUN)
    (place / "tune.toml").write_text(_TUNE)
    (place / "done.toml").write_text(_RUN.split('[[policy]]\nkind = "sar"')[0] + '[[policy]]\nkind = "halving"\n')
    done = ["run", str(place / "done.toml"), "--out", str(place / "done")]
    subprocess.run([sys.executable, "-m", "jaxbandit", *done], check=True, capture_output=True)
    return {
        "run": ["run", str(place / "run.toml"), "--out", str(place / "run")],
        "reproduce": ["reproduce", "cheng2010/fig4a", "--runs", "20", "--out", str(place / "reproduce")],
        "tune": ["tune", str(place / "tune.toml"), "--out", str(place / "tune")],
        "compare": ["compare", str(place / "done")],
    }


def interrupt(command: list[str], how: str, after: float, between: float = 0.0) -> tuple[int, str, str]:
    """Starts the command and stops it ``after`` seconds; returns its status and what it printed on stdout and stderr.

    ``between``: seconds from the first signal to the second, where there are two.
    """
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *command], text=True, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        time.sleep(after)
        first, *more = HOW[how]
        process.send_signal(first)
        for number in more:
            time.sleep(between)
            process.send_signal(number)
        out, said = process.communicate(timeout=60)
    return process.returncode, out, said


def complaint(command: list[str], how: str, status: int, out: str, said: str) -> str:
    """What is wrong with how an interrupted command ended; empty where nothing is."""
    wanted, line = (143, "jaxbandit: terminated") if how == "SIGTERM" else (130, "jaxbandit: interrupted")
    lines = said.splitlines()
    if status != wanted:
        return f"status {status} in place of {wanted}"
    if not lines or not lines[-1].startswith(line) or not all(each.startswith("jaxbandit: ") for each in lines):
        return "not one line at the end"
    if said.count(line) > 1:
        return "said twice"
    if "continues" in said and command[0] == "compare":
        return "nothing is there to continue"
    # What formulas say comes first, whole, and may have been printed before the simulation was stopped.
    return "" if not out or (command[0] == "tune" and "results in" in said) else "a table all the same"


def main() -> int:
    """Prints what went wrong, and how many interruptions there were; returns 1 where anything did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbs", nargs="+", default=list(LATEST))
    given = parser.parse_args()
    moments, wrong = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        commands = prepare(Path(folder))
        for verb in given.verbs:
            for how in HOW:
                stopped = ended = 0
                while stopped < given.times:
                    after, between = moments.uniform(0, LATEST[verb]), moments.uniform(0, 0.05)
                    status, out, said = interrupt(commands[verb], how, after, between)
                    if status == 0:  # it was faster
                        ended += 1
                        wrong += "interrupted" in said or "terminated" in said
                        shutil.rmtree(Path(folder) / verb, ignore_errors=True)
                        continue
                    stopped += 1
                    if why := complaint(commands[verb], how, status, out, said):
                        wrong += 1
                        print(f"{verb}, {how} after {after:.3f} s: {why}\n{said}", flush=True)
                print(f"{verb}, {how}: stopped {stopped} times, ended before {ended} times", flush=True)
    print(f"{wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
