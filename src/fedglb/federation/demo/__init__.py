"""A demonstration federation on one machine: real processes, simulated users, one agent killed."""
