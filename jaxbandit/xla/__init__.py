"""What XLA needs to make good programs, and nothing of any family: see ``docs/xla-cpu.md``."""
