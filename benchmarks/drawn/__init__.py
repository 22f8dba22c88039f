"""Calls that nobody chose: drawn at random, then timed, compiled or pictured."""
