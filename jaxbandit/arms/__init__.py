"""Arms with rewards: what families of arms share."""
