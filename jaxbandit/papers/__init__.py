"""The papers: their figures and tables as studies, by the name that ``jaxbandit reproduce`` takes."""

from collections.abc import Mapping

from jaxbandit.papers import ban2020, cheng2010, zhuang2017
from jaxbandit.study.figure import Figure

FIGURES: Mapping[str, Figure] = {**cheng2010.FIGURES, **zhuang2017.FIGURES, **ban2020.FIGURES}
