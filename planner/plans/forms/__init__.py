"""Forms of statements that DataFusion lacks, and that need a plan to be known."""
