-- See tests/planner/workarounds.py.

## a condition above RIGHT JOIN goes to a namesake
SELECT y.id, y.c FROM u x RIGHT JOIN (SELECT id, a, c FROM t WHERE lower(c) <> 'x' AND id < 9) y ON x.a = y.a AND y.a > 100 WHERE x.c IS NULL
--
1 | y
3 | yy
5 | y
7 | yy
--
RIGHT JOIN

## a constant of FULL JOIN is taken for one of its result
SELECT x.k, y.id FROM (SELECT id, 7 AS k FROM u WHERE id < 5) x FULL JOIN t y ON x.id = y.id WHERE y.id < 5 ORDER BY x.k, y.id
--
7 | 0
7 | 2
7 | 4
NULL | 1
NULL | 3
--
An order or groups by

## what one row has is taken for a constant of FULL JOIN
SELECT x.n, y.id FROM (SELECT count(*) AS n, max(id) AS m FROM t) x FULL JOIN t y ON x.m = y.id ORDER BY x.n, y.id LIMIT 3
--
40 | 39
NULL | 0
NULL | 1
--
An order or groups by
