Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT).

## lists of literals
SELECT f IN (0, 7) AS a, r NOT IN (-0.0, 1, NULL) AS b, -f IN (1, 2) AS c, n IN (0, 1) AS d, price IN (0.0, 1) AS e FROM p
--
SELECT f IN (0, 7, -0.0) AS a, r NOT IN (-0.0, 1, NULL, CAST(0.0 AS REAL)) AS b, -f IN (1, 2) AS c, n IN (0, 1) AS d, price IN (0.0, 1) AS e FROM p

## equalities that become a list
SELECT id FROM p WHERE f = 0 OR f = 1 OR (0.0 = r) OR f = n OR n = 0 OR ((f = 0) AND f <> 1)
--
SELECT id FROM p WHERE f IN (0, -0.0) OR f = 1 OR (r IN (0.0, CAST(-0.0 AS REAL))) OR f = n OR n = 0 OR ((f = 0) AND f <> 1)

## computed values
SELECT f IN (n, 7) AS a, CAST(n AS DOUBLE) IN (f, 7) AS b FROM p
--
SELECT f + CAST(0 AS DOUBLE) IN (n, 7) AS a, CAST(n AS DOUBLE) + CAST(0 AS DOUBLE) IN (f + CAST(0 AS DOUBLE), 7) AS b FROM p

## CASE and nullif
SELECT CASE f WHEN 1 THEN 2 WHEN 0 THEN 3 END AS a, CASE r WHEN 1 THEN 2 END AS b, nullif(r * n, 0) AS c, nullif(f, NULL) AS d FROM p
--
SELECT CASE f + CAST(0 AS DOUBLE) WHEN 1 THEN 2 WHEN 0 THEN 3 END AS a, CASE r WHEN 1 THEN 2 END AS b, nullif((r * n) + CAST(0 AS REAL), 0) AS c, nullif(f, NULL) AS d FROM p
