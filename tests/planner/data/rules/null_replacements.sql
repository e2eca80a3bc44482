Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT).

## in each other
SELECT nvl(price, ifnull(big, 0)), nvl2(n, 1, nvl(id, 2)) FROM p
--
SELECT coalesce(price, coalesce(big, 0)), CASE WHEN n IS NOT NULL THEN 1 ELSE coalesce(id, 2) END FROM p

## other functions
SELECT coalesce(n, 1), "nvl" FROM (SELECT n, id AS nvl FROM p) AS x
--
SELECT coalesce(n, 1), "nvl" FROM (SELECT n, id AS nvl FROM p) AS x
