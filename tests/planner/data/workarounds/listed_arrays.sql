-- See tests/planner/workarounds.py.

## an element is added to what lies below a vector that is NULL
SELECT array_append(arrow_cast(x, 'FixedSizeList(2, Float32)'), NULL) AS y FROM (VALUES (arrow_cast(NULL, 'List(Float32)')), ([1.0, 2.0])) AS t(x)
--
[1.0, 2.0, None]
[None]

## an element of a vector that is NULL is added to it
SELECT array_append(arrow_cast(x, 'FixedSizeList(2, Float32)'), arrow_cast(x, 'FixedSizeList(2, Float32)')[1]) AS y FROM (VALUES (arrow_cast(NULL, 'List(Float32)')), ([1.0, 2.0])) AS t(x)
--
[1.0, 2.0, 1.0]
[None]

## and to what lies below a list that has become NULL
SELECT array_append(nullif(x, y), 1) AS z, nullif(x, y) || 1 AS o FROM (VALUES ([1, 2], [1, 2]), ([3], [4])) AS t(x, y)
--
[1] | [1]
[3, 1] | [3, 1]

## NULL in a list of rows
SELECT 3 = ANY(l) AS x FROM (SELECT make_array(1, NULL) AS l) AS t
--
NULL
