"""The federation: agents in applications on many machines, joined into one learner over NATS."""
