"""Run statements: queries and updates, their parameters, results and cancellation."""
