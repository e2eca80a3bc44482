Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## unsigned integers
SELECT u - v AS x, v - v AS y FROM w
--
SELECT CAST(u AS DECIMAL(20, 0)) - CAST(v AS DECIMAL(20, 0)) AS x, CAST(v AS DECIMAL(20, 0)) - CAST(v AS DECIMAL(20, 0)) AS y FROM w

## other numbers and operators
SELECT u - 1 AS x, u + v AS y, n - n AS z FROM w, p
--
SELECT u - 1 AS x, u + v AS y, n - n AS z FROM w, p
