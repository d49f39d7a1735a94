"""Faster implementations of the cleaning rules, which ``accelerated`` finds once this package is imported."""

from jaxbandit.cleaning.fast import choice, pulls

__all__ = ["choice", "pulls"]
