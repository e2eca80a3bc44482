"""Text queries: what they mean, how they score, and where their terms are found."""
