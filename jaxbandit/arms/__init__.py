"""Arms with rewards: the problems and reward models that families of arms share."""
