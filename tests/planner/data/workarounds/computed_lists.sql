-- See tests/planner/workarounds.py.

## a list with CASE is computed once for all rows
SELECT id, n IN (CASE WHEN id > 2 THEN 3 END, 8, 9, 10, 11) AS x FROM m
--
0 | NULL
1 | NULL
2 | NULL
3 | NULL
4 | False
5 | NULL
6 | NULL
7 | False
8 | False
9 | NULL
