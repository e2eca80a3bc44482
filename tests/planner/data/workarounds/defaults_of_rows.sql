-- See tests/planner/workarounds.py.

## lag with a default of each row
SELECT lag(x, 1, y) OVER (ORDER BY x) FROM (VALUES (1, 5), (2, 6)) AS q(x, y)
--
1
5
