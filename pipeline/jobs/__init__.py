"""What all jobs use: the tables under a root, their state, runners, and progress."""
