"""Speed, measured as ratios in one run: every contender on the same machine, minutes apart, in a process of its own."""
