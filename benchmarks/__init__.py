"""Benchmarks: ``python -m benchmarks.run --out DIR``; see README.md."""
