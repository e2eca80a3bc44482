-- See tests/planner/workarounds.py.

## two lists for a column lose NULL
SELECT id, id IN (1, 2) AND id NOT IN (NULL, 2) AS x FROM m
--
0 | False
1 | NULL
2 | False
3 | False
4 | False
5 | False
6 | False
7 | False
8 | False
9 | False

## two lists for a column lose a value that is a column
SELECT id FROM m WHERE g IN (0, 1) AND g IN (id, 1)
--
0
3
4
5
