"""What tools of other databases say: words of PostgreSQL, who asks and where, and lists by SHOW."""
