"""Faster implementations of the top-K rules, which ``accelerated`` finds once this package is imported."""

from jaxbandit.topk.fast import halving, lucb, optmai, sar, uniform

__all__ = ["halving", "lucb", "optmai", "sar", "uniform"]
