"""What a family gets, how it times its sides, and its report: findings with bars, plots, checked answers."""
