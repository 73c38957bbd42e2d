"""The agent: what runs inside an application."""
