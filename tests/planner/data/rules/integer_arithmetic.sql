Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## unsigned integers
SELECT u - v AS x, v + v AS y FROM w
--
SELECT CAST(u AS DECIMAL(20, 0)) - CAST(v AS DECIMAL(20, 0)) AS x, CAST(v AS DECIMAL(20, 0)) + CAST(v AS DECIMAL(20, 0)) AS y FROM w

## integers of fewer than 64 bits
SELECT u + u AS x, CAST(n AS INT) * CAST(id AS SMALLINT) AS y FROM w, p
--
SELECT CAST(u AS BIGINT) + CAST(u AS BIGINT) AS x, CAST(CAST(n AS INT) AS BIGINT) * CAST(CAST(id AS SMALLINT) AS BIGINT) AS y FROM w, p

## other numbers and operators
SELECT u - 1 AS x, n - n AS z, u / u AS q, f * u AS r FROM w, p
--
SELECT u - 1 AS x, n - n AS z, u / u AS q, f * u AS r FROM w, p

## divisors and multiples
SELECT gcd(v, 2) AS a, lcm(v, u) AS b, gcd(u, 2) AS c FROM w
--
SELECT gcd(CAST(v AS DECIMAL(20, 0)), CAST(2 AS DECIMAL(20, 0))) AS a, lcm(CAST(v AS DECIMAL(20, 0)), CAST(u AS DECIMAL(20, 0))) AS b, gcd(u, 2) AS c FROM w

## negative values
SELECT -u AS a, -v AS b, -i AS c FROM w, t
--
SELECT -CAST(u AS BIGINT) AS a, -CAST(v AS DECIMAL(20, 0)) AS b, -i AS c FROM w, t

## the least BIGINT
SELECT -9223372036854775808 FROM w
--
SELECT -9223372036854775808 FROM w
