Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York), lists (l BIGINT[]).

## what is computed of a number of elements
SELECT l[array_length(l)] AS a, array_slice(l, 1, cardinality(l)) AS b, array_length(l) - 1 AS c, coalesce(array_length(l), 0) AS d FROM lists
--
SELECT l[CAST(array_length(l) AS BIGINT)] AS a, array_slice(l, 1, CAST(cardinality(l) AS BIGINT)) AS b, CAST(array_length(l) AS BIGINT) - 1 AS c, coalesce(CAST(array_length(l) AS BIGINT), 0) AS d FROM lists

## and of a number of rows
SELECT (row_number() OVER (ORDER BY id)) - 1 AS a, CASE WHEN TRUE THEN rank() OVER (ORDER BY s) END AS b, left(s, array_position([1], 1)) AS c FROM t
--
SELECT (CAST(row_number() OVER (ORDER BY id) AS BIGINT)) - 1 AS a, CASE WHEN TRUE THEN CAST(rank() OVER (ORDER BY s) AS BIGINT) END AS b, left(s, CAST(array_position([1], 1) AS BIGINT)) AS c FROM t

## what is shown or compared
SELECT array_length(l) AS a, row_number() OVER () AS b FROM lists WHERE array_length(l) > 1 ORDER BY cardinality(l)
--
SELECT array_length(l) AS a, row_number() OVER () AS b FROM lists WHERE array_length(l) > 1 ORDER BY cardinality(l)
