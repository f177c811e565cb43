"""Speed, measured as ratios in one run: every contender on the same machine, in a process of its own."""
