-- See tests/planner/workarounds.py.

## NaN is lost among the extremes of expressions
SELECT g, max(abs(f)) AS x FROM m GROUP BY g
--
0 | nan
1 | nan
2 | nan
3 | NULL
NULL | 1.0
