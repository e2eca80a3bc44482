Bytes of several types; see planner/sql/rules/values.py.

## coalesce of large bytes
SELECT coalesce(large, X'FF') FROM (SELECT arrow_cast(X'FF', 'LargeBinary') AS large) AS t
--
b'\xff'

## NULL beside bytes
WITH t AS (SELECT arrow_cast(X'61', 'Binary') AS b) SELECT coalesce(b, NULL) = X'61' AS x FROM t
--
True
