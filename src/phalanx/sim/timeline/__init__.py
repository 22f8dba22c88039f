"""A clock for the simulator: what instructions cost on a model of a card, and a run in the order of those times."""
