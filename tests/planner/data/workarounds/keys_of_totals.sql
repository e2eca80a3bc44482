-- See tests/planner/workarounds.py.

## ROLLUP over a constant is in no order
SELECT n, s, count(*) AS c FROM (SELECT 5 AS n, s FROM m) GROUP BY ROLLUP (n, s) ORDER BY n, s, c
--
5 | a | 1
5 | b | 1
5 | c | 1
5 | d | 1
5 | NULL | 6
5 | NULL | 10
NULL | NULL | 10

## a condition on a key of totals goes to a namesake
SELECT count(*) AS n FROM (SELECT id, c FROM t WHERE lower(c) <> 'q') x JOIN (SELECT a, c FROM t WHERE lower(c) <> 'q') y ON x.id = y.a GROUP BY GROUPING SETS ((x.c, y.c), (x.c)) HAVING x.c = 'x' ORDER BY n
--
2
3
3
8
