"""Outlier arms (Zhuang, Wang and Wang 2017; Ban and He 2020), one rule a file; ``fast`` has faster implementations."""

from jaxbandit.outliers import fast
from jaxbandit.outliers.family import plan
from jaxbandit.outliers.gold import GOLD, gold
from jaxbandit.outliers.ib import IB, ib
from jaxbandit.outliers.intervals import Interval, interval
from jaxbandit.outliers.nrr import NRR, nrr
from jaxbandit.outliers.problem import OutlierArms, Pull, View
from jaxbandit.outliers.record import CAPPED, DECIDED, FLAT, Seen
from jaxbandit.outliers.rr import RR, rr
from jaxbandit.outliers.wrr import WRR, rho_star, wrr

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
