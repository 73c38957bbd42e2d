"""The coordinator: the service that runs global updates."""
