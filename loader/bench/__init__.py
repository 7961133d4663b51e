"""Benchmarks: how much CPU a message costs, beside the baseline and the ceilings, in one run on one machine.
Each verb of `loader bench` is a module of verbs/; what it measures with is beside this file."""
