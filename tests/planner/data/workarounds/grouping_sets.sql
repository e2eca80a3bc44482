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
--
since it is the same in all rows
