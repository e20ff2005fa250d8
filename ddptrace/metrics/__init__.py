"""What one recording's tables say: where each rank's step went."""
