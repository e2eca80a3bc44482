-- See tests/planner/workarounds.py.

## the last element of a list
SELECT l[array_length(l)] FROM (VALUES ([1, 5]), ([])) AS t(l)
--
5
NULL
