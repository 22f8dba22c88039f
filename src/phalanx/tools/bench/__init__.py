"""What `phalanx bench` and the scripts in `benchmarks/` share: shapes, contenders, turns, results files, plots.

Nothing here imports typer, torch or matplotlib before it is needed: the scripts run where only some of them are installed.
"""
