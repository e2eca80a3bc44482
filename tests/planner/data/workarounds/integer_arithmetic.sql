-- See tests/planner/workarounds.py.

## products of INT wrap around
SELECT CAST(100000 AS INT) * CAST(100000 AS INT) AS x
--
10000000000

## differences of unsigned integers wrap around
SELECT CAST(1 AS INT UNSIGNED) - CAST(4 AS INT UNSIGNED) AS x
--
-3
