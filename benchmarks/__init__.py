"""Speed and memory, measured as ratios in one run; results are in RESULTS.md."""
