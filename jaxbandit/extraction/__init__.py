"""Budgeted entity extraction over a hierarchy (CRUX; Rekatsinas, Deshpande and Parameswaran 2019)."""

from jaxbandit.extraction.poset import Domain, Poset, Tree, domain
from jaxbandit.extraction.problem import Extraction, Outcome, Pull, View, extraction

__all__ = ["Domain", "Extraction", "Outcome", "Poset", "Pull", "Tree", "View", "domain", "extraction"]
