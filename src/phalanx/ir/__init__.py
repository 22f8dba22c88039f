"""The tile IR: typed values, views, instructions with declared effects, functions."""
