-- See tests/planner/workarounds.py.

## HAVING without columns empties the rows below an aggregate
SELECT count(*) AS n FROM t HAVING (SELECT max(id) FROM u) < 0
--
(no rows)

## a condition on a constant empties the rows below an aggregate
SELECT n FROM (SELECT 7 AS a, count(*) AS n FROM t) WHERE a = 5
--
(no rows)

## ON FALSE empties the rows below an aggregate
SELECT x.id, s.n FROM w x LEFT JOIN (SELECT count(*) AS n, max(id) AS m FROM t) s ON FALSE
--
1 | NULL
2 | NULL
3 | NULL
4 | NULL
--
A condition that reads no columns

## a condition empties the totals of ROLLUP
SELECT n FROM (SELECT a, 1 AS n FROM t GROUP BY ROLLUP (a)) WHERE (SELECT max(id) FROM u) < 0
--
(no rows)
