"""Scripts that print the tables of papers beside what was measured: ``python -m benchmarks.papers.NAME``."""
