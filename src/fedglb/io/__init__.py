"""Files: whole or not there, with one writer, and TOML."""
