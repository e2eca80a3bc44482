"""Forms of the SQL standard that DataFusion lacks or misreads, written in forms that it has."""
