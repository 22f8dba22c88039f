"""Ahead-of-time export: machine code, a C launcher, a manifest and a loader that need no Phalanx."""
