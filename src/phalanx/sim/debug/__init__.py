"""Stopping and stepping: a simulated run that a person looks into, goes on with and goes back in."""
