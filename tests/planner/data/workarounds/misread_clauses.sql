-- See tests/planner/workarounds.py.

## TABLESAMPLE is ignored
SELECT count(*) AS n FROM t TABLESAMPLE SYSTEM (0)
--
0
--
TABLESAMPLE

## WITH ROLLUP is ignored
SELECT a, count(*) AS n FROM t GROUP BY a WITH ROLLUP
--
0 | 5
1 | 5
2 | 6
3 | 6
4 | 5
5 | 4
6 | 5
NULL | 4
NULL | 40
--
WITH ROLLUP

## AND binds more than IS DISTINCT FROM
SELECT id FROM m WHERE n IS DISTINCT FROM 3 AND g = 0
--
0
2
