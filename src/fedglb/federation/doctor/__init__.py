"""What may be wrong with a member's folder, found before it hurts; the operator has more."""
