"""The pages of papers have the numbers that the figures give now: a cheap figure of each page is run again."""

from dataclasses import replace
from pathlib import Path

import pytest

from jaxbandit.papers import FIGURES
from jaxbandit.study.figure import Request
from jaxbandit.study.run import run

PAGES = Path(__file__).parents[1] / "docs" / "papers"


@pytest.mark.slow
def test_zhuang2017(tmp_path: Path) -> None:
    """What the default interval costs, of the table of intervals."""
    page = (PAGES / "zhuang2017.md").read_text()
    pulls = []
    for number, study in enumerate(FIGURES["zhuang2017/intervals"].make(Request(200)).studies):
        some = [policy for policy in study.policies if policy["interval"] == "bernoulli-corrected"]
        pulls += [row for row in run(replace(study, policies=some), tmp_path / str(number)) if row["metric"] == "pulls"]
    assert len(pulls) == 6
    for row in pulls:
        assert f"| {row['mean']:,.0f} ({row['ci_low']:,.0f} to {row['ci_high']:,.0f})" in page


@pytest.mark.slow
def test_cheng2010(tmp_path: Path) -> None:
    """Figure 4(a) at the one budget that the page's table has of it."""
    page = (PAGES / "cheng2010.md").read_text()
    plan = FIGURES["cheng2010/fig4a"].make(Request(1000))
    (study,) = plan.studies
    assert plan.rows is not None
    rows = plan.rows(run(replace(study, sweep={"budget": [10_000]}), tmp_path))
    leads = [row for row in rows if row["metric"] == "lead_percent"]
    assert len(leads) == 3
    for row in leads:
        assert f"{row['mean']:.2f} % ({row['ci_low']:.2f} to {row['ci_high']:.2f}) | fig4a" in page
