"""What holds a step back: rules over the metrics, each with its cost and evidence."""
