"""What all families that a study file can name have to keep to."""

import pytest

from jaxbandit.registry import Family
from jaxbandit.study.families import FAMILIES


@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_names_do_not_clash(family: Family) -> None:
    """Stored results have metrics and parameters side by side, by name."""
    of_kinds = (metric for kind in family.problems.values() for metric in kind.metrics)
    metrics = [metric.name for metric in (*family.metrics, *of_kinds)]
    kinds = [*family.problems.values(), *family.policies.values()]
    parameters = {parameter.name for kind in kinds for parameter in kind.parameters}
    assert len(set(metrics)) == len(metrics)
    assert not parameters & {*metrics, "policy", "kind", "run", "checkpoint", "done"}
    assert set(family.common) <= parameters
