Tables: lists (id BIGINT, l BIGINT[], m BIGINT[]).

## lists that may be NULL
SELECT array_has_all(l, m) AS a, list_has_any(l, m) AS b, l @> m AS c, l <@ m AS d FROM lists
--
SELECT CASE WHEN l IS NOT NULL AND m IS NOT NULL THEN array_has_all(l, m) END AS a, CASE WHEN l IS NOT NULL AND m IS NOT NULL THEN list_has_any(l, m) END AS b, CASE WHEN l IS NOT NULL AND m IS NOT NULL THEN l @> m END AS c, CASE WHEN m IS NOT NULL AND l IS NOT NULL THEN l <@ m END AS d FROM lists

## NULL as a list
SELECT array_has_all(NULL, []) AS a, array_has_any(l, NULL) AS b FROM lists
--
SELECT CAST(NULL AS BOOLEAN) AS a, CAST(NULL AS BOOLEAN) AS b FROM lists

## an empty list of constants
SELECT array_has_all(l, []) AS a FROM lists
--
SELECT CASE WHEN l IS NOT NULL THEN array_has_all(l, []) END AS a FROM lists

## a list of constants
SELECT array_has_all(l, make_array(1)) AS a, make_array(1) <@ l AS b FROM lists
--
SELECT array_has_all(l, make_array(1)) AS a, make_array(1) <@ l AS b FROM lists
