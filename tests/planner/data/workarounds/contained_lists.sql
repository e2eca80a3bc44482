Statements that DataFusion answers wrongly, and the right rows.

## an empty list in NULL
SELECT array_has_all(l, []) FROM (VALUES (NULL), (make_array(1))) AS t(l)
--
NULL
true

## a common member of NULL and an empty list
SELECT array_has_any(l, []) FROM (VALUES (NULL), (make_array(1))) AS t(l)
--
NULL
false

## NULL in a list
SELECT array_has_all(m, l) FROM (SELECT make_array(1) AS m, CAST(NULL AS BIGINT[]) AS l) AS t
--
NULL
