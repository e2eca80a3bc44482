Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT).

## decimals
SELECT ceil(price), floor(price + 1) AS x, ceil(f), floor(big) FROM p
--
SELECT ceil(CAST(price AS DECIMAL(11, 2))), floor(CAST(price + 1 AS DECIMAL(24, 2))) AS x, ceil(f), floor(big) FROM p

## a common table that reads others
WITH a AS (SELECT price AS x FROM p), b AS (SELECT ceil(x) AS y FROM a) SELECT floor(x) FROM a
--
WITH a AS (SELECT price AS x FROM p), b AS (SELECT ceil(CAST(x AS DECIMAL(11, 2))) AS y FROM a) SELECT floor(CAST(x AS DECIMAL(11, 2))) FROM a
