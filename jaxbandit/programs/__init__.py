"""Compiled programs: made side by side (``ahead``), and found again by later processes (``cache``, ``store``)."""
