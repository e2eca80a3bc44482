"""Orders of results and of windows that DataFusion lacks or misreads."""
