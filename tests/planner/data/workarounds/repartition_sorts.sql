-- See tests/planner/workarounds.py.

## a UNION is merged by a key that it is not sorted by
SELECT * FROM (SELECT 2 AS n, id FROM t UNION ALL SELECT 1, id FROM t) ORDER BY n, id DESC LIMIT 3
--
1 | 39
1 | 38
1 | 37
