Tables: t (id BIGINT, i BIGINT).

## a default of the row
SELECT lag(i, 1, id) OVER (ORDER BY id) AS x FROM t
--
SELECT CASE WHEN lag(TRUE, 1) OVER (ORDER BY id) THEN lag(i, 1) OVER (ORDER BY id) ELSE id END AS x FROM t

## the same without NULL
SELECT lead(i, 2, id + 1) IGNORE NULLS OVER (PARTITION BY i ORDER BY id) AS x FROM t
--
SELECT coalesce(lead(i, 2) IGNORE NULLS OVER (PARTITION BY i ORDER BY id), id + 1) AS x FROM t

## constants
SELECT lag(i, 1, 0) OVER (ORDER BY id) AS x, lead(i, 1, -1) OVER (ORDER BY id) AS y FROM t
--
SELECT lag(i, 1, 0) OVER (ORDER BY id) AS x, lead(i, 1, -1) OVER (ORDER BY id) AS y FROM t
