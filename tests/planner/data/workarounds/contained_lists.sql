-- See tests/planner/workarounds.py.

## an empty list in NULL
SELECT array_has_all(l, []) FROM (VALUES (NULL), (make_array(1))) AS t(l)
--
NULL
True

## a common member of NULL and an empty list
SELECT array_has_any(l, []) FROM (VALUES (NULL), (make_array(1))) AS t(l)
--
False
NULL

## NULL in a list
SELECT array_has_all(m, l) FROM (SELECT make_array(1) AS m, CAST(NULL AS BIGINT[]) AS l) AS t
--
NULL
