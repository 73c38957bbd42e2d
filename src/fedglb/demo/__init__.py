"""A federation on one machine, to look at: real processes, simulated users, one of them killed."""
