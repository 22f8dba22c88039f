"""The checks: clocks, shadow state, findings, the report. `runtime/checking.py` runs them; `docs/checks.md` has the rules."""
