-- See planner/sql/rules/lists.py.

## the length of a list
SELECT length(ARRAY[10, 20]) AS n
--
2
