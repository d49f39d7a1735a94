"""Benchmarks: ``python -m benchmarks.run --out DIR``; see README.md, also for the tables of papers in ``papers``."""
