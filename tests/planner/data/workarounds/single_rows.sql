Conditions above aggregates without groups; see planner/sql/rules/keys.py.

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
