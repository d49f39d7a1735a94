"""Outlier arms (Zhuang, Wang and Wang 2017; Ban and He 2020), one rule a file."""

from jaxbandit.arms.problem import Tape
from jaxbandit.outliers.family import plan
from jaxbandit.outliers.gold import GOLD
from jaxbandit.outliers.ib import IB
from jaxbandit.outliers.intervals import Interval, clucb, interval
from jaxbandit.outliers.leap import CAPPED, DECIDED, FLAT, RUNNING
from jaxbandit.outliers.nrr import NRR
from jaxbandit.outliers.problem import Bernoulli, Chosen, Once, Pull, Rewards, Singles, View
from jaxbandit.outliers.rr import RR
from jaxbandit.outliers.wrr import WRR, rho_star

__all__ = [
    "CAPPED",
    "DECIDED",
    "FLAT",
    "GOLD",
    "IB",
    "NRR",
    "RR",
    "RUNNING",
    "WRR",
    "Bernoulli",
    "Chosen",
    "Interval",
    "Once",
    "Pull",
    "Rewards",
    "Singles",
    "Tape",
    "View",
    "clucb",
    "interval",
    "plan",
    "rho_star",
]
