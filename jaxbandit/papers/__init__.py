"""The papers: their figures and tables as studies, by the name that ``jaxbandit reproduce`` takes."""

from collections.abc import Mapping

from jaxbandit.papers import ban2020, cheng2010, rekatsinas2019, zhou2014, zhuang2017
from jaxbandit.study.figure import Figure

_PAPERS = (cheng2010, zhou2014, zhuang2017, ban2020, rekatsinas2019)

FIGURES: Mapping[str, Figure] = {name: figure for paper in _PAPERS for name, figure in paper.FIGURES.items()}
