"""The tables that families measure on: made once, kept while their parameters match."""
