"""Whether programs are left as XLA would have them, without what this package does for its sake."""

import os

PLAIN = os.environ.get("JAXBANDIT_PLAIN", "0") not in ("", "0")
"""The environment variable ``JAXBANDIT_PLAIN=1``: all of ``jaxbandit.xla`` but ``fence.rarely`` is then what it means
under ``vmap``, and no more. The results are the same, bit for bit where arithmetic is on integers; programs are slower.
"""
