"""The operator: certificates, members, and the NATS server's configuration."""
