"""What users wait for, measured: `python -m benchmarks` runs the quick scripts."""
