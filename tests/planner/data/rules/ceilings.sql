Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT).

## decimals
SELECT ceil(price), floor(price + 1) AS x, ceil(f), floor(big) FROM p
--
SELECT ceil(CAST(price AS DECIMAL(11, 2))), floor(CAST(price + 1 AS DECIMAL(24, 2))) AS x, ceil(f), floor(big) FROM p
