"""Generators of random kernels and what they are judged by, run by `make fuzz` and by tests of a small share.

A kind is a module of this package with `judge(seeds, options)`: it draws one case per seed, the same one for the same
seed on every machine, and yields an `Outcome` for each. `python -m fuzz` runs any number of seeds of a kind with progress.
"""
