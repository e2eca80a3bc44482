-- See tests/planner/workarounds.py.

## keys of ORDER BY are left out over the groups of a join
SELECT a, id FROM (SELECT DISTINCT q.a, t.id FROM (SELECT a, count(*) AS n FROM u GROUP BY a) q, t WHERE t.id < 2) ORDER BY a, id DESC
--
0 | 1
0 | 0
1 | 1
1 | 0
2 | 1
2 | 0
3 | 1
3 | 0
4 | 1
4 | 0
NULL | 1
NULL | 0
