"""How a sweep runs: tasks, processes, a cluster, progress."""
