"""What a sweep runs: its file, its grid, the experiment."""
