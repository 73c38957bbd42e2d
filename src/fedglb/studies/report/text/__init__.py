"""The sentences and numerals of a report."""
