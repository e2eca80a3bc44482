"""Plan statements with DataFusion, keep the plans, and run them."""
