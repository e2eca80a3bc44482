Tables: w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]), t (id BIGINT, i BIGINT, s TEXT).

## of a column, and of an array
SELECT u, length(l) AS n FROM w WHERE length(coalesce(l, l)) > length(ARRAY[1, 2])
--
SELECT u, cardinality(l) AS n FROM w WHERE cardinality(coalesce(l, l)) > cardinality([1, 2])

## of texts
SELECT length(s) AS n, length('abc') AS m FROM t
--
SELECT length(s) AS n, length('abc') AS m FROM t
