"""The studies, one folder each; `bench.core.study` states the contract they keep."""
