"""Forms of timestamps whose units DataFusion reads otherwise."""
