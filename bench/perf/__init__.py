"""Speed, measured as ratios in one run: every contender on the same machine, in turns, in a process of its own."""
