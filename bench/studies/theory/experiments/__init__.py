"""Experiments of the theory study, one module each: SETTINGS, COLUMNS, `parts(sizes)` and `measure(task, part)`."""
