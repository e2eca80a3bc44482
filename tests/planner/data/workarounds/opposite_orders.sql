-- See tests/planner/workarounds.py.

## distinct values have the order of another aggregate
SELECT array_agg(DISTINCT g ORDER BY g) AS x, array_agg(DISTINCT g ORDER BY g DESC) AS y FROM m WHERE g >= 0
--
[0, 1, 2, 3] | [3, 2, 1, 0]
