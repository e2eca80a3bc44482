Tables: p (id BIGINT, price DECIMAL(10, 2), f DOUBLE, r REAL, n BIGINT).

## the greatest of a group
SELECT n, max(f) FROM p GROUP BY n
--
SELECT n, coalesce(max(CASE WHEN isnan(f) THEN f END), max(CASE WHEN (f) > CAST('-inf' AS DOUBLE) THEN f END), min(CASE WHEN NOT isnan(f) THEN f END)) FROM p GROUP BY n

## the smallest of some rows of a group
SELECT n FROM p GROUP BY n HAVING min(DISTINCT f + 1) FILTER(WHERE id > 1) > 0
--
SELECT n FROM p GROUP BY n HAVING coalesce(min(CASE WHEN (f + 1) < CAST('inf' AS DOUBLE) THEN f + 1 END) FILTER(WHERE id > 1), max(CASE WHEN NOT isnan(f + 1) THEN f + 1 END) FILTER(WHERE id > 1), min(CASE WHEN isnan(f + 1) THEN f + 1 END) FILTER(WHERE id > 1)) > 0

## what may be another value each time is computed once
SELECT n, max(random()) FROM p GROUP BY n
--
SELECT n, first_value(random() ORDER BY random() DESC NULLS LAST) FROM p GROUP BY n

## integers, all rows, and windows
SELECT n, max(id), min(price) FROM p GROUP BY n UNION ALL SELECT 1, max(f), 1 FROM p UNION ALL SELECT n, max(f) OVER (), 1 FROM p GROUP BY n, f
--
SELECT n, max(id), min(price) FROM p GROUP BY n UNION ALL SELECT 1, max(f), 1 FROM p UNION ALL SELECT n, max(f) OVER (), 1 FROM p GROUP BY n, f

## what counts a frame that leaves rows behind
SELECT count(*) OVER (PARTITION BY n ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS c FROM p ORDER BY c
--
SELECT nullif(count(*) OVER (PARTITION BY n ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), NULL) AS c FROM p ORDER BY c

## what counts a frame that only grows
SELECT count(*) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS c FROM p ORDER BY c
--
SELECT count(*) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS c FROM p ORDER BY c
