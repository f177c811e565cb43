"""The studies, one module each: `run(cell, settings, data, device, journal)` returns what a record says was found."""
