"""Faster implementations of the rules, a file each: they register themselves with ``grammar.accelerated``."""

from jaxbandit.outliers.fast import gold, ib, nrr, rr, wrr

__all__ = ["gold", "ib", "nrr", "rr", "wrr"]
