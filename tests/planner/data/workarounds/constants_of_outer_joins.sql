-- See tests/planner/workarounds.py.

## a constant of FULL JOIN is taken for one of its result
SELECT x.k, y.id FROM (SELECT id, 7 AS k FROM u WHERE id < 5) x FULL JOIN t y ON x.id = y.id WHERE y.id < 5 ORDER BY x.k, y.id
--
7 | 0
7 | 2
7 | 4
NULL | 1
NULL | 3

## what one row has is taken for a constant of FULL JOIN
SELECT x.n, y.id FROM (SELECT count(*) AS n, max(id) AS m FROM t) x FULL JOIN t y ON x.m = y.id ORDER BY x.n, y.id LIMIT 3
--
40 | 39
NULL | 0
NULL | 1
