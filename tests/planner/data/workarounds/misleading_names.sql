-- See tests/planner/workarounds.py.

## a name that DataFusion gives to another column is mistaken for it
SELECT count(1) OVER (PARTITION BY g) AS c, -id AS "count(Int64(1)) PARTITION BY [m.g] ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" FROM m ORDER BY 2
--
1 | -9
1 | -8
2 | -7
2 | -6
3 | -5
3 | -4
3 | -3
3 | -2
3 | -1
3 | 0
--
choose another name
