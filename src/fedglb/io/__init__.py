"""Atomic writes and locks, and TOML."""
