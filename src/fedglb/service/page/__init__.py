"""The coordinator's page: how a federation is doing, over HTTP, in a thread of its own."""
