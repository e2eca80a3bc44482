-- See tests/planner/workarounds.py.

## the distinct values of a constant NULL are counted
SELECT count(DISTINCT x) AS d, count(1) AS n FROM (SELECT CAST(NULL AS VARCHAR) AS x FROM (VALUES (1), (2)) q (a))
--
0 | 2
--
of a constant is not
