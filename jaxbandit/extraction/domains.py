"""The domains of the paper's experiments, regenerated at full size: what is published of them, filled in at random.

A generator's result depends on its seed alone. The published figures are in the notes of each.
"""

import numpy as np
from numpy.typing import NDArray

from jaxbandit.extraction.poset import Domain, Tree, domain

EVENTS, TYPES, COUNTRIES, STATES, CITIES = 57_805, 19, 63, 1_709, 10_739
MONTHS, DAYS = (43_584, 14_221), (16, 15)
"""Events of each month: of the populations published, the two that add up to all events; and its days, 31 in all."""
LARGEST_COUNTRY = 37_377
"""The only published population that the months split into two published ones, after the months themselves."""
LARGEST_TYPES = (18_735, 15_580)

_COUNTRY, _STATE, _CITY, _DAY, _TYPE = 1.0, 1.43, 1.85, 0.48, 1.1
"""Exponents of the power laws that share events out, and (next line) how often a city's event is of the type of an
earlier one there. They are fitted to the published node populations: ``benchmarks/papers/domains.py`` compares."""
_SAME_TYPE = 0.8

PEOPLE, OCCUPATIONS, PORTALS = 1_245, 4, 5


def eventbrite_like(seed: int = 0) -> Domain:
    """Generates 57,805 events: 19 types, 12,511 places (countries, states, cities), 31 days of two months.

    Popularities are uniform in (0, 10]. The poset's node populations come close to those published (175,608 nodes that
    are not empty, 116,703 of them with a single event): within 1 % in all, 7 % at populations of 2, 6 % at others.
    """
    rng = np.random.default_rng(seed)
    largest = np.array([LARGEST_COUNTRY])
    of_country = np.concatenate([largest, _shares(EVENTS - LARGEST_COUNTRY, _power(COUNTRIES - 1, _COUNTRY))])
    states = _shares(STATES, of_country**0.5, of_country)
    of_state = np.concatenate([_shares(n, _power(m, _STATE)) for n, m in zip(of_country, states, strict=True)])
    cities = _shares(CITIES, of_state**0.7, of_state)
    of_city = np.concatenate([_shares(n, _power(m, _CITY)) for n, m in zip(of_state, cities, strict=True)])
    city = np.repeat(np.arange(CITIES), of_city)

    types = np.concatenate([LARGEST_TYPES, _power(TYPES - 2, _TYPE) * (EVENTS - sum(LARGEST_TYPES))])
    kind = rng.choice(TYPES, EVENTS, p=types / types.sum())
    first = np.repeat(np.cumsum(of_city) - of_city, of_city)
    event = np.arange(EVENTS)
    earlier = first + (rng.random(EVENTS) * (event - first)).astype(np.int64)
    like = np.where((event > first) & (rng.random(EVENTS) < _SAME_TYPE), earlier, event)
    while (like[like] != like).any():
        like = like[like]
    dates = np.concatenate([month * _power(days, _DAY) for month, days in zip(MONTHS, DAYS, strict=True)])
    date = rng.choice(sum(DAYS), EVENTS, p=dates / dates.sum())

    trees = (_tree("type", [np.zeros(TYPES, np.int64)]),
             _tree("place", [np.zeros(COUNTRIES, np.int64), np.repeat(np.arange(COUNTRIES), states),
                             np.repeat(np.arange(STATES), cities)]),
             _tree("date", [np.zeros(len(DAYS), np.int64), np.repeat(np.arange(len(DAYS)), DAYS)]))  # fmt: skip
    places = np.stack([1 + kind[like], 1 + COUNTRIES + STATES + city, 1 + len(DAYS) + date], axis=1)
    return domain(trees, places, 10 * (1 - rng.random(EVENTS)))


def people_like(seed: int = 0) -> Domain:
    """Generates 1,245 people of 4 occupations in 5 portals, and 2,979 reports: popularity is a person's number of them.

    Reports fall with a person's rank r as r^-0.7, one at least. So asking the root for 20 at a time gives about what is
    published (41 and 52) under ``k-largest``: 44 distinct people of 200 answers and 55 of 2,000. Under ``proportional``
    it gives 158 and 771. How people spread over occupations and portals is not published: here unevenly, as
    4 : 3 : 2 : 1 and 5 : 4 : 3 : 2 : 1, whatever their popularity.
    """
    rng = np.random.default_rng(seed)
    reports = np.maximum(np.floor(133.2 * np.arange(1, PEOPLE + 1) ** -0.7), 1)
    places = np.stack(
        [1 + rng.choice(n, PEOPLE, p=np.arange(n, 0, -1) * 2 / (n * (n + 1))) for n in (OCCUPATIONS, PORTALS)], axis=1
    )
    trees = tuple(
        _tree(name, [np.zeros(n, np.int64)]) for name, n in (("occupation", OCCUPATIONS), ("portal", PORTALS))
    )
    return domain(trees, places, reports)


def _power(n: int, exponent: float) -> NDArray[np.float64]:
    """Shares of n ranks, falling as rank^-exponent."""
    share = np.arange(1, n + 1, dtype=np.float64) ** -exponent
    shares: NDArray[np.float64] = share / share.sum()
    return shares


def _shares(total: int, weight: NDArray[np.floating], most: NDArray[np.integer] | None = None) -> NDArray[np.int64]:
    """``total`` in whole parts, 1 at least and ``most`` at most, else as proportional to ``weight`` as can be."""
    parts = np.ones(len(weight), np.int64)
    room = np.full(len(weight), total) if most is None else np.asarray(most)
    while (left := int(total - parts.sum())) > 0:
        open_ = np.where(parts < room, weight, 0.0)
        exact = left * open_ / open_.sum()
        more = np.floor(exact).astype(np.int64)
        if not more.any():
            more[np.argsort(more - exact, kind="stable")[:left]] = 1
        parts = np.minimum(parts + more, room)
    return parts


def _tree(name: str, levels: list[NDArray[np.integer]]) -> Tree:
    """A tree by levels: of each node there, the number of its parent in the level above (the root is one)."""
    parent, names, above = [np.zeros(1, np.int32)], [""], 0
    for depth, level in enumerate(levels, 1):
        parent.append((above + level).astype(np.int32))
        above = len(names)
        names += [f"{name}-{depth}-{number}" for number in range(len(level))]
    return Tree(np.concatenate(parent), tuple(names))
