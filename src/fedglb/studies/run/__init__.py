"""Running sweeps: tasks, processes, a cluster, progress."""
