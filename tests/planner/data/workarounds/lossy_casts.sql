-- See tests/planner/workarounds.py.

## a comparison takes what TRY_CAST makes NULL for the number that was cast
SELECT count(*) AS x FROM (SELECT id - 5 AS n FROM t) AS u WHERE NOT (TRY_CAST(n AS BIGINT UNSIGNED) >= 2)
--
2
