-- See tests/planner/workarounds.py.

## a subquery that compares with < is not run
SELECT id, (SELECT count(*) FROM u WHERE u.a < t.a) AS c FROM t WHERE id < 3
--
0 | 0
1 | 7
2 | 14
