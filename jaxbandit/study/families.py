"""The families that a study file can name, by the first part of a problem's kind (``cleaning/synthetic``)."""

from jaxbandit.cleaning.family import FAMILY as CLEANING
from jaxbandit.errors import BadInput
from jaxbandit.extraction.family import FAMILY as EXTRACTION
from jaxbandit.outliers.family import FAMILY as OUTLIERS
from jaxbandit.registry import Family, ProblemKind
from jaxbandit.topk.family import FAMILY as TOPK

FAMILIES: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Makes a family known to study files and the command line, under its name."""
    FAMILIES[family.name] = family
    return family


def lookup(field: str, kind: object) -> tuple[Family, ProblemKind]:
    """The family and the problem that ``family/problem`` names.

    Raises:
        BadInput: naming ``field``, where there is no such problem.
    """
    known = {f"{family.name}/{problem}": family for family in FAMILIES.values() for problem in family.problems}
    if not isinstance(kind, str) or kind not in known:
        raise BadInput(field, kind, f"one of {', '.join(known)}")
    return known[kind], known[kind].problems[kind.partition("/")[2]]


register(CLEANING)
register(TOPK)
register(OUTLIERS)
register(EXTRACTION)
