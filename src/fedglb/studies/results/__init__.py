"""What a sweep leaves: its folder and its tables."""
