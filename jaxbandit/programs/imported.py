"""When this package was imported, with which flags of the compiler: what came later is not what runs (``store``)."""

import os
import time

WHEN = time.time()
"""Seconds since 1970."""
FLAGS = os.environ.get("XLA_FLAGS")
