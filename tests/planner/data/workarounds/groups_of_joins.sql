-- See tests/planner/workarounds.py.

## DISTINCT is left out over the groups of a join
SELECT DISTINCT a FROM (SELECT q.a, t.id, count(*) FROM (SELECT a, count(*) AS n FROM u GROUP BY a) q CROSS JOIN t GROUP BY q.a, t.id)
--
0
1
2
3
4
NULL

## keys of GROUP BY are left out over the groups of a join
SELECT a, count(*) AS k FROM (SELECT q.a, t.id FROM (SELECT a, count(*) AS n FROM u GROUP BY a) q, t WHERE t.id < 2 GROUP BY q.a, t.id) GROUP BY a, id
--
0 | 1
0 | 1
1 | 1
1 | 1
2 | 1
2 | 1
3 | 1
3 | 1
4 | 1
4 | 1
NULL | 1
NULL | 1
