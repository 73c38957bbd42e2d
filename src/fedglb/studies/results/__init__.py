"""The results of a sweep: its folder and its tables."""
