"""The checks: clocks, shadow state, findings, the report. `docs/checks.md` has the rules."""
