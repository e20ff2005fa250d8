"""What a step would take with other buckets, another link, or without a late rank."""
