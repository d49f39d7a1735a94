"""The families that a study file can name, by the first part of a problem's kind (``cleaning/synthetic``)."""

from jaxbandit.cleaning.family import FAMILY as CLEANING
from jaxbandit.extraction.family import FAMILY as EXTRACTION
from jaxbandit.outliers.family import FAMILY as OUTLIERS
from jaxbandit.registry import Family
from jaxbandit.topk.family import FAMILY as TOPK

FAMILIES: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Makes a family known to study files and the command line, under its name."""
    FAMILIES[family.name] = family
    return family


register(CLEANING)
register(TOPK)
register(OUTLIERS)
register(EXTRACTION)
