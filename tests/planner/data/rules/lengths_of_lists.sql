Tables: w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]), t (id BIGINT, i BIGINT, s TEXT).

## of a column, and of an array
SELECT u, length(l) AS n FROM w WHERE length(coalesce(l, l)) > length(ARRAY[1, 2])
--
SELECT u, CAST(cardinality(l) AS BIGINT) AS n FROM w WHERE CAST(cardinality(coalesce(l, l)) AS BIGINT) > CAST(cardinality([1, 2]) AS BIGINT)

## of texts
SELECT length(s) AS n, length('abc') AS m FROM t
--
SELECT length(s) AS n, length('abc') AS m FROM t
