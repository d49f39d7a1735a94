"""When this package was imported: files of it that changed later are not what runs. See ``store``."""

import time

WHEN = time.time()
"""Seconds since 1970."""
