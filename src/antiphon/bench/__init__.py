"""Benchmarks: what the parts cost on this machine, as ratios of interleaved runs. `antiphon bench` shows them."""
