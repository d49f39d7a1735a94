"""Faster implementations of the rules, a file each, which ``accelerated`` finds once this package is imported."""

from jaxbandit.extraction.fast import bfs, crux, gs_exact, rand

__all__ = ["bfs", "crux", "gs_exact", "rand"]
