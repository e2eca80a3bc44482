-- See tests/planner/workarounds.py.

## a condition above RIGHT JOIN goes to a namesake
SELECT y.id, y.c FROM u x RIGHT JOIN (SELECT id, a, c FROM t WHERE lower(c) <> 'x' AND id < 9) y ON x.a = y.a AND y.a > 100 WHERE x.c IS NULL
--
1 | y
3 | yy
5 | y
7 | yy
