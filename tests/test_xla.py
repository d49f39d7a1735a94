"""What XLA compiles as it is told."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from jaxbandit.xla import exact
from jaxbandit.xla.columns import Columns
from jaxbandit.xla.entries import ascending
from jaxbandit.xla.fence import as_one_kernel, computed_once, each, rarely, walk
from jaxbandit.xla.packed import packed
from jaxbandit.xla.pairs import matches
from jaxbandit.xla.plain import PLAIN
from jaxbandit.xla.platforms import by_platform, traced_for
from jaxbandit.xla.prefix import best, highest_first
from jaxbandit.xla.selection import NONE, Extent, cut_of


def test_what_is_computed_once_is_always_computed() -> None:
    """Whatever the numbers are that the branch looks at; and it is a branch, which XLA does not fuse over."""

    def squared(x: Array, by: Array) -> Array:
        return x * x + by

    once = jax.jit(jax.vmap(computed_once(squared)))
    for first in (-(2**31), -1, 0, 2**31 - 1):
        x, by = np.arange(64, dtype=np.int32), np.full(64, first, np.int32)
        assert np.array_equal(once(x, by), squared(x, by))
    assert PLAIN or "conditional" in once.lower(x, by).compile().as_text()


def test_one_kernel_computes_the_same() -> None:
    """Loops of different length in each lane; an operand without effect, on which XLA's CPU backend would fail."""

    def collatz(x: Array, unused: Array, scale: Array) -> Array:
        def one(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            number, steps, unused = carry
            return jnp.where(number % 2 == 0, number // 2, 3 * number + 1), steps + scale[number % 3], unused

        def loop() -> tuple[Array, Array, Array]:
            return lax.while_loop(lambda carry: carry[0] > 1, one, (x, jnp.int32(0), unused))

        return as_one_kernel(loop)[1]

    numbers, scale = np.arange(1, 65, dtype=np.int32), np.array([1, 10, 100], np.int32)
    given = numbers, numbers.astype(np.float32), scale
    program = jax.jit(jax.vmap(collatz, in_axes=(0, 0, None))).lower(*given).compile()
    expected = []
    for number in numbers.tolist():
        steps = 0
        while number > 1:
            steps += int(scale[number % 3])
            number = number // 2 if number % 2 == 0 else 3 * number + 1
        expected.append(steps)
    assert program(*given).tolist() == expected
    if jax.default_backend() == "cpu" and not PLAIN:
        assert "xla_cpu_small_call" in program.as_text()


@pytest.mark.parametrize("way", ["cpu", "default"])
def test_what_is_rarely_needed_is_computed_for_those_in_need(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 75 lanes none, one, all but two, and all: blocks of lanes side by side. Others would never end."""
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, **ways: ways[way](*operands))

    @rarely
    def halved(x: Array, by: Array, table: Array) -> tuple[Array, Array]:
        steps, rest = lax.while_loop(
            lambda state: state[1] != 0, lambda state: (state[0] + 1, state[1] // by), (jnp.int32(0), x)
        )
        return table[steps], rest - steps

    x, table = np.arange(1, 76, dtype=np.int32), np.arange(9, dtype=np.int32) ** 2
    function = jax.jit(jax.vmap(halved, ((0), (0, None), 0, None, None)))
    for off in (range(75), set(range(75)) - {74}, (0, 41), ()):
        needed = ~np.isin(np.arange(75), list(off))
        endless = np.where(needed, x, -1).astype(np.int32)  # -1 // 2 is -1
        found = function(needed, (-x, np.int32(7)), endless, np.int32(2), table)
        steps = np.array([int(number).bit_length() for number in x], np.int32)
        for values, expected in zip(
            found, (np.where(needed, table[steps], -x), np.where(needed, -steps, 7)), strict=True
        ):
            np.testing.assert_array_equal(values, expected)


def test_what_is_light_is_computed_for_all_but_used_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the way of accelerators, with operands that differ from lane to lane and one that does not."""
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, **ways: ways["default"](*operands))
    scaled = rarely(lambda x, by: (x * by, x.sum()), light=True)
    x, needed = np.arange(12, dtype=np.int32).reshape(4, 3), np.array([True, False, False, True])
    function = jax.jit(jax.vmap(lambda needed, x: scaled(needed, (x, jnp.int32(-1)), x, jnp.int32(3))))
    found, total = function(needed, x)
    np.testing.assert_array_equal(found, np.where(needed[:, None], 3 * x, x))
    np.testing.assert_array_equal(total, np.where(needed, x.sum(1), -1))


@pytest.mark.parametrize("way", ["cpu", "default"])
def test_the_first_of_the_highest_is_found(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an order of its own, with ties, also of negative numbers."""
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, **ways: ways[way](*operands))
    x = np.array([[-2, -1, -3, -1, -1], [0, 5, 5, 2, 1]], np.float32)
    order = np.array([[0, 4, 1, 2, 3], [4, 3, 2, 1, 0]], np.int32)
    most, first = jax.jit(jax.vmap(highest_first))(x, order)
    assert most.tolist() == [-1, 5]
    assert first.tolist() == [2, 2]


@pytest.mark.parametrize("way", ["cpu", "default"])
def test_a_walk_ends_for_each_lane_where_it_is_over(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or after so many steps, more on a CPU. Rows are written in place; of what the steps have from around them, one
    differs from lane to lane."""
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, **ways: ways[way](*operands))

    def walked(number: Array, rows: Array, table: Array, most: Array) -> tuple[Array, Array]:
        def step(state: tuple[Array, Array], going: Array) -> tuple[Array, Array]:
            number, rows = state
            start = number % 3 * 16
            row = lax.dynamic_slice_in_dim(rows, start, 16)
            row = jnp.where(going, row * 3 + table[number % 5], row)
            return number + going.astype(jnp.int32), lax.dynamic_update_slice_in_dim(rows, row, start, 0)

        return walk(step, lambda state: state[0] < most, (number, rows), most=9, abreast=5)

    rng = np.random.default_rng(0)
    numbers, rows, table = (
        np.arange(6, dtype=np.int32),
        rng.integers(0, 9, (6, 48), np.int32),
        rng.integers(0, 9, 5, np.int32),
    )
    most = np.array([3, 0, 9, 40, 5, 7], np.int32)
    found_numbers, found_rows = jax.jit(jax.vmap(walked, (0, 0, None, 0)))(numbers, rows, table, most)
    for lane in range(6):
        steps = min(max(most[lane] - lane, 0), 9 if way == "cpu" or PLAIN else 5)
        for number in range(lane, lane + steps):
            part = slice(number % 3 * 16, number % 3 * 16 + 16)
            rows[lane, part] = rows[lane, part] * 3 + table[number % 5]
        assert found_numbers[lane] == lane + steps
    np.testing.assert_array_equal(found_rows, rows)


class Pair(NamedTuple):
    """Two columns, or a row of them."""

    number: Array
    share: Array


@pytest.mark.parametrize("way", ["cpu", "default"])
def test_columns_are_read_and_written_as_arrays_of_their_own(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lane after lane and side by side, where the lanes that are over write nothing."""
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, **ways: ways[way](*operands))
    numbers, shares = np.arange(24, dtype=np.int32).reshape(4, 6), np.linspace(-1, 1, 24, dtype=np.float32)
    shares, places = shares.reshape(4, 6), np.array([[0, 5], [1, 2], [4, 3], [2, 0]], np.int32)
    going = np.array([True, False, True, True])

    def changed(number: Array, share: Array, place: Array, going: Array) -> tuple[Any, ...]:
        columns = Columns.of(Pair(number, share))
        row = columns.row(place[0])
        found = row, columns.entry("share", place[1]), columns.part(jnp.minimum(place[0], 3), 3)
        columns = columns.put_where([(row.number + 100, None), (None, -row.share)], list(place), going)
        part = columns.part(jnp.int32(3), 2)
        columns = columns.put_parts_where([Pair(part.number * 2, part.share)], [jnp.int32(3)], [going])
        return *found, columns.all(), each(lambda a, b: a * b, [place[0], place[1]], [jnp.int32(2), jnp.int32(3)])

    lanes = jax.jit(jax.vmap(changed) if way == "default" else lambda *given: lax.map(lambda own: changed(*own), given))
    row, share, part, after, products = lanes(numbers, shares, places, going)
    lane = np.arange(4)
    np.testing.assert_array_equal(row, (numbers[lane, places[:, 0]], shares[lane, places[:, 0]]))
    np.testing.assert_array_equal(share, shares[lane, places[:, 1]])
    start = np.minimum(places[:, 0], 3)[:, None] + np.arange(3)
    np.testing.assert_array_equal(part, (numbers[lane[:, None], start], shares[lane[:, None], start]))
    np.testing.assert_array_equal(products, (places * [2, 3]).T)
    new_numbers, new_shares = numbers.copy(), shares.copy()
    for own, (first, second) in enumerate(places):
        if going[own] or (way == "cpu" and not PLAIN):  # a lane alone is not asked when it is over
            new_numbers[own, first], new_shares[own, second] = numbers[own, first] + 100, -shares[own, first]
            new_numbers[own, 3:5] *= 2
    np.testing.assert_array_equal(after, (new_numbers, new_shares))


def test_quotients_and_roots_of_gpus_are_a_cpus() -> None:
    """Correctly rounded, as NumPy's are, and rounded twice where one is divided by the other; also by the simplifying
    that XLA does to a quotient of a root."""

    def of_gpus(a: Array, b: Array) -> tuple[Array, Array]:
        root = exact.in_float64(lax.sqrt, b)
        return exact.in_float64(lax.div, a, b), exact.in_float64(lax.div, jnp.ones_like(root), root)

    generator = np.random.default_rng(3)
    a = generator.integers(0, 1 << 24, 200_000).astype(np.float32)
    b = generator.integers(1, 1 << 24, 200_000).astype(np.float32)
    quotients, roots = jax.jit(of_gpus)(a, b)
    np.testing.assert_array_equal(quotients, a / b)
    np.testing.assert_array_equal(roots, np.float32(1) / np.sqrt(b))
    np.testing.assert_array_equal(exact.quotient(jnp.asarray(a), jnp.asarray(b)), quotients)
    np.testing.assert_array_equal(exact.root(jnp.asarray(b)), np.sqrt(b))


@pytest.mark.parametrize("many", [1, 7, 40, 100])
@pytest.mark.parametrize("way", ["cpu", "default"])
def test_matches_are_counted_among_all_pairs(way: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once and some after others, lane by lane: how many others are smaller and in use."""
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, **ways: ways[way](*operands))
    generator = np.random.default_rng(5)
    values, used = generator.integers(0, 9, (6, many)).astype(np.int32), generator.random((6, many)) < 0.5

    def smaller(values: Array, used: Array) -> Array:
        return matches(lambda other, is_used: is_used & (other < values), values, used)

    expected = ((values[:, None] < values[..., None]) & used[:, None]).sum(2)
    np.testing.assert_array_equal(jax.jit(jax.vmap(smaller))(values, used), expected)


@pytest.mark.parametrize("way", ["cpu", "default"])
@pytest.mark.parametrize("many", [1, 2, 300])
def test_places_ascend_by_their_keys(way: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest and the highest key there are among them, and many that are equal: those keep their order."""
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, **ways: ways[way](*operands))
    keys = np.random.default_rng(6).choice(np.array([-(2**31), -7, -1, 0, 1, 2**31 - 1], np.int32), (5, many))
    found = jax.jit(jax.vmap(ascending))(keys)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.argsort(keys, axis=1, kind="stable"))


@pytest.mark.parametrize("way", ["blocks", "whole"])
def test_a_cut_is_behind_the_largest_keys(way: str) -> None:
    size, block, lanes = 96, 32, 60
    draw = np.random.default_rng(3)
    spread = np.repeat([1, 8, 1 << 12, 1 << 20, 1 << 30], lanes // 5)[:, None]  # few keys have many ties
    keys = draw.integers(-spread, spread + 1, (lanes, size)).astype(np.int32)
    keys[draw.random(keys.shape) < 0.1] = NONE
    keys[0], keys[1, :50], keys[2, 0], keys[2, 1:] = NONE, NONE, 1 << 30, -(1 << 30)
    counts = draw.integers(0, size + 9, lanes).astype(np.int32)
    counts[2] = 2

    def chosen(key: Array, count: Array) -> tuple[Array, Array]:
        whole = way == "whole"
        width = None if whole else jnp.int32(size)
        cut = cut_of(key, count, Extent.nothing().of(key), width, size if whole else block)
        place = jnp.arange(size)
        return (key > cut.least) | ((key == cut.least) & (place < cut.end)), cut.after

    found, after = jax.jit(jax.vmap(chosen))(keys, counts)
    for lane in range(lanes):
        there = int((keys[lane] != NONE).sum())
        first = np.argsort(-keys[lane].astype(np.int64), kind="stable")
        taken = min(int(counts[lane]), there)
        assert sorted(first[:taken]) == np.flatnonzero(found[lane]).tolist()
        if 0 < taken < there and keys[lane, first[taken]] >= -(1 << 29):
            assert after[lane] == keys[lane, first[taken]]


@pytest.mark.parametrize("way", ["cpu", "default"])
def test_the_best_are_those_of_the_largest_scores(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties go to the earlier entry; none and all are wanted too, and scores may be as far apart as they can."""
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, **ways: ways[way](*operands))
    size, lanes = 90, 60
    draw = np.random.default_rng(4)
    spread = np.repeat([1, 8, 1 << 12, 1 << 20, 1 << 30], lanes // 5)[:, None]
    scores = draw.integers(-spread, spread + 1, (lanes, size)).astype(np.int32)
    eligible = draw.random(scores.shape) < draw.random((lanes, 1))
    scores[0, :2], eligible[0, :2], eligible[1] = (1 << 30, -(1 << 30)), True, False
    counts = draw.integers(0, eligible.sum(axis=1) + 1).astype(np.int32)
    counts[2:4] = 0, eligible[3].sum()

    chosen, least = jax.jit(jax.vmap(best))(scores, counts, eligible)
    for lane in range(lanes):
        first = np.argsort(np.where(eligible[lane], -scores[lane].astype(np.int64), 1 << 40), kind="stable")
        expected = first[: counts[lane]]
        assert sorted(expected) == np.flatnonzero(chosen[lane]).tolist()
        assert least[lane] == (scores[lane, expected[-1]] if counts[lane] else (1 << 30) + 1)


@pytest.mark.parametrize("way", ["cpu", "default"])
def test_rows_of_all_lanes_are_taken_together(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many lanes that an accelerator takes several blocks at a time; some of them have no rows, others all."""
    monkeypatch.setattr(lax, "platform_dependent", lambda *operands, **ways: ways[way](*operands))
    lanes, rows, block = 600, 7, 16
    draw, taken = np.random.default_rng(7), []
    mask = draw.random((lanes, rows)) < draw.random((lanes, 1))
    mask[:9], mask[9:20] = False, True
    values, own = draw.integers(0, 99, (2, lanes, rows)).astype(np.int32)
    factor = draw.integers(1, 9, lanes).astype(np.int32)

    def doubled(written: list[Array], read: Array, lane: Array) -> list[Array]:
        taken.append(read.shape[0])
        return [written[0] * lane + read]

    def one(mask: Array, values: Array, own: Array, factor: Array) -> Array:
        return packed(doubled, block, mask, [values], [0], own, factor)[0]

    found = jax.jit(jax.vmap(one))(mask, values, own, factor)
    np.testing.assert_array_equal(found, np.where(mask, values * factor[:, None] + own, values))
    assert PLAIN or max(taken) == (block if way == "cpu" else 4 * block)


def test_a_platform_that_is_known_has_its_way_alone() -> None:
    """Else both are traced. A function that JAX traced for one platform is traced anew for another."""

    @jax.jit
    def inner(x: Array) -> Array:
        return by_platform(x, cpu=lambda x: x + 1, default=lambda x: x * x)

    def outer(x: Array) -> Array:
        return inner(x)

    x = jnp.int32(7)
    traced = {platform: str(jax.make_jaxpr(traced_for(platform, outer))(x)) for platform in ("cpu", "gpu", "tpu")}
    assert " add " in traced["cpu"]
    assert " mul " not in traced["cpu"]
    assert traced["gpu"] == traced["tpu"]
    assert " add " not in traced["gpu"]
    assert " mul " in traced["gpu"]
    both = str(jax.make_jaxpr(outer)(x))
    assert " add " in both
    assert " mul " in both
    assert [int(jax.jit(traced_for(platform, outer))(x)) for platform in ("cpu", "gpu")] == [8, 49]
