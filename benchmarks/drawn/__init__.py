"""Calls of the library with shapes drawn at random: timed, compiled or pictured."""
