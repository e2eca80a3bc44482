Conditions above totals; see planner/sql/rules/subqueries.py.

## two conditions that contradict each other
SELECT count(*) AS c FROM (SELECT n FROM (SELECT sum(x) AS n FROM (VALUES (1)) AS t(x)) AS s WHERE n = 3 AND n = 5) AS q
--
0

## ON FALSE empties the rows below an aggregate
SELECT x.id, s.n FROM w x LEFT JOIN (SELECT count(*) AS n, max(id) AS m FROM t) s ON FALSE
--
1 | NULL
2 | NULL
3 | NULL
4 | NULL

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
