"""Outlier arms (Zhuang, Wang and Wang 2017; Ban and He 2020), one rule a file; ``fast`` has what makes them fast."""

from jaxbandit.outliers import fast
from jaxbandit.outliers.family import plan
from jaxbandit.outliers.gold import GOLD
from jaxbandit.outliers.ib import IB
from jaxbandit.outliers.intervals import Interval, interval
from jaxbandit.outliers.nrr import NRR
from jaxbandit.outliers.problem import OutlierArms, Pull, View
from jaxbandit.outliers.record import CAPPED, DECIDED, FLAT, Seen
from jaxbandit.outliers.rr import RR
from jaxbandit.outliers.rules import gold, ib, nrr, rr, wrr
from jaxbandit.outliers.wrr import WRR, rho_star

__all__ = [
    "CAPPED",
    "DECIDED",
    "FLAT",
    "GOLD",
    "IB",
    "NRR",
    "RR",
    "WRR",
    "Interval",
    "OutlierArms",
    "Pull",
    "Seen",
    "View",
    "fast",
    "gold",
    "ib",
    "interval",
    "nrr",
    "plan",
    "rho_star",
    "rr",
    "wrr",
]
