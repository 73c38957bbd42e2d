"""What agents and the coordinator send to each other, to the byte."""
