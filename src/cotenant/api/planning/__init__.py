"""Plans for serving: read devices and evidence, predict mixes, solve, check, and compare with what was measured."""
