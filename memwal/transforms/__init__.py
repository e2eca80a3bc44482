"""Region transforms: from the columns of a row to the values of its region."""
