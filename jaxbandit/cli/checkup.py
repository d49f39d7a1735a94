"""What ``jaxbandit doctor --check`` tells: whether a device computes what is known, and how fast.

The rule is EE, with one program for all: its mean against the exact expectation, its pulls a second, and the bits of
its first runs against those of the machines that this package was made on.
"""

import hashlib
import math
import time
from collections.abc import Iterator
from typing import Any

BUDGET, ENTITIES, MOST, EXPLORE, NEED = 1_000, 50_000, 19, 3, 1.0
EXPECTED, SPREAD = 680.36211, 28.81763
"""Mean and standard deviation of what a run removes: ``cleaning.expected_removed`` of these numbers."""
RUNS, HASHED, SEED, ERRORS = 1 << 16, 4096, 19, 5.0
"""Runs of a CPU's device at a time; how many of them have their bits compared; standard errors that are too many."""
BITS = "623aae094ed07599"
"""The first 16 digits of the SHA-256 of the answers of the first runs."""
_TIMES, _SECONDS = 16, 4.0
"""More runs at a time elsewhere than on CPUs; and how long they are timed."""


def checkup() -> Iterator[tuple[str, str, bool]]:
    """Yields each check as it is made: its name, what was found, and whether that is right."""
    import jax

    from jaxbandit import simulate
    from jaxbandit.cleaning import Uniform, ee, synthetic, uniform_false_values

    devices = jax.local_devices()
    runs = RUNS * len(devices) * (1 if devices[0].platform == "cpu" else _TIMES)
    problem = synthetic(
        budget=BUDGET, entities=ENTITIES, false_values=uniform_false_values(0, MOST), sc_pdf=Uniform()
    )  # fmt: skip
    rule = ee(EXPLORE, NEED)

    def answers() -> dict[str, Any]:
        found = simulate(problem, rule, runs=runs, seed=SEED, progress=False)
        return {name: values[0] for name, values in found.items()}

    start = time.monotonic()
    found = answers()
    first = time.monotonic() - start
    away = (float(found["removed"].mean()) - EXPECTED) / (SPREAD / math.sqrt(runs))
    yield "law", (
        f"over {runs:,} runs ee removes {found['removed'].mean():.3f} in the mean, and its law says {EXPECTED:.3f}: "
        f"{abs(away):.1f} standard errors apart"
    ), abs(away) < ERRORS  # fmt: skip
    bits = digest(found)
    same = bits == BITS
    yield "bits", f"{bits}, {'as they should be' if same else f'and not {BITS}: see docs/accelerators.md'}", same
    rates: list[float] = []
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end or len(rates) < 2:
        start = time.monotonic()
        found = answers()
        rates.append(float(found["cleans"].sum(dtype="int64")) / (time.monotonic() - start))
    rates.sort()
    yield "speed", (
        f"{rates[len(rates) // 2] / 1e6:,.0f} million pulls a second of ee, host included; first call {first:.1f} s"
    ), True  # fmt: skip


def digest(answers: dict[str, Any]) -> str:
    """Returns the first digits of a hash of the first runs' answers, their names included."""
    hashed = hashlib.sha256()
    for name, values in sorted(answers.items()):
        hashed.update(name.encode())
        hashed.update(values[:HASHED].astype(values.dtype.newbyteorder("<")).tobytes())
    return hashed.hexdigest()[:16]
