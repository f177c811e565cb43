"""The figures of thesis chapter 2, one module each; modules with an underscore draw what several share."""

DEPARTS = "Departs from the paper: see docs/results-lookahead.md."
