-- See tests/planner/workarounds.py.

## NaN is lost among the extremes of columns
SELECT g, max(f) AS x, min(f) AS y FROM m GROUP BY g
--
0 | nan | 0.5
1 | nan | 2.0
2 | nan | nan
3 | NULL | NULL
NULL | -1.0 | -1.0

## infinity is no extreme
SELECT g, max(edge) AS x FROM m WHERE edge < 0 GROUP BY g
--
1 | -inf

## counts of frames are not sorted
SELECT count(*) OVER (PARTITION BY g ORDER BY id ROWS 1 PRECEDING) AS c FROM m ORDER BY c
--
1
1
1
1
1
2
2
2
2
2

## NaN is lost among the extremes of expressions
SELECT g, max(abs(f)) AS x FROM m GROUP BY g
--
0 | nan
1 | nan
2 | nan
3 | NULL
NULL | 1.0
