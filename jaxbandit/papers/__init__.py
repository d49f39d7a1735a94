"""The papers: their figures and tables as studies, by the name that ``jaxbandit reproduce`` takes."""

from collections.abc import Mapping

from jaxbandit.papers import cheng2010, rekatsinas2019, zhou2014
from jaxbandit.study.figure import Figure

FIGURES: Mapping[str, Figure] = {**cheng2010.FIGURES, **zhou2014.FIGURES, **rekatsinas2019.FIGURES}
