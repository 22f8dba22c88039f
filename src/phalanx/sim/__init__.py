"""The simulator: what every instruction means, and a machine of clusters, agents and engines that runs it."""
