"""The messages between agents and coordinator, to the byte."""
