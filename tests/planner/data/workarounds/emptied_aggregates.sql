-- See tests/planner/workarounds.py.

## HAVING without columns empties the rows below an aggregate
SELECT count(*) AS n FROM t HAVING (SELECT max(id) FROM u) < 0
--
(no rows)

## a condition on a constant empties the rows below an aggregate
SELECT n FROM (SELECT 7 AS a, count(*) AS n FROM t) WHERE a = 5
--
(no rows)

## a condition empties the totals of ROLLUP
SELECT n FROM (SELECT a, 1 AS n FROM t GROUP BY ROLLUP (a)) WHERE (SELECT max(id) FROM u) < 0
--
(no rows)
