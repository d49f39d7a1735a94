"""Budgeted entity extraction over a hierarchy (CRUX; Rekatsinas, Deshpande and Parameswaran 2019)."""

from jaxbandit.extraction import fast
from jaxbandit.extraction.bfs import Bfs, bfs
from jaxbandit.extraction.crux import Crux
from jaxbandit.extraction.gs_exact import GsExact, gs_exact
from jaxbandit.extraction.options import crux, root_chao
from jaxbandit.extraction.poset import Domain, Poset, Tree, domain
from jaxbandit.extraction.problem import Extraction, InformedView, Outcome, Pull, View, extraction
from jaxbandit.extraction.rand import Rand, rand
from jaxbandit.extraction.readings import Readings
from jaxbandit.extraction.retrieved import Retrieved

__all__ = [
    "Bfs",
    "Crux",
    "Domain",
    "Extraction",
    "GsExact",
    "InformedView",
    "Outcome",
    "Poset",
    "Pull",
    "Rand",
    "Readings",
    "Retrieved",
    "Tree",
    "View",
    "bfs",
    "crux",
    "domain",
    "extraction",
    "fast",
    "gs_exact",
    "rand",
    "root_chao",
]
