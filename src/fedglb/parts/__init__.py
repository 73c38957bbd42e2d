"""The axes of an algorithm: a folder is an axis, a file one choice on it."""
