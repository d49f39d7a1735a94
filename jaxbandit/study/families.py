"""The families that a study file can name, by the first part of a problem's kind (``cleaning/synthetic``)."""

from dataclasses import replace

from jaxbandit.cleaning.family import FAMILY as CLEANING
from jaxbandit.extraction.family import FAMILY as EXTRACTION
from jaxbandit.outliers.family import FAMILY as OUTLIERS
from jaxbandit.registry import Family
from jaxbandit.study.sources import source_of
from jaxbandit.topk.family import FAMILY as TOPK

FAMILIES: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Makes a family known to study files and the command line, under its name, with the source of its first problem
    where it names none."""
    sources = [source_of(kind.build) for kind in family.problems.values()]
    known = family if family.fingerprint else replace(family, fingerprint="".join(sources[:1]))
    FAMILIES[family.name] = known
    return known


register(CLEANING)
register(TOPK)
register(OUTLIERS)
register(EXTRACTION)
