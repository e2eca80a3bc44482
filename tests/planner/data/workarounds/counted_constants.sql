-- See tests/planner/workarounds.py.

## the distinct values of a constant NULL are counted
SELECT count(DISTINCT x) AS d, count(1) AS n FROM (SELECT CAST(NULL AS VARCHAR) AS x FROM (VALUES (1), (2)) q (a))
--
0 | 2

## the distinct values of a constant NULL are counted in a subquery
SELECT id FROM v WHERE (SELECT count(DISTINCT x) + count(1) FROM (SELECT CAST(NULL AS VARCHAR) AS x FROM (VALUES (1), (2)) w (y)) q) = 2
--
1
2
3
4
