"""Runs of functions on arrays whose sizes, strides and addresses remember how they came about."""
