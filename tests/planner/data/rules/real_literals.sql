Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## a literal compared with a REAL is a REAL
SELECT id FROM p WHERE r = 4.44 OR r IN (0.1, -4.44)
--
SELECT id FROM p WHERE r = CAST(4.44 AS REAL) OR r IN (CAST(0.1 AS REAL), -CAST(4.44 AS REAL))

## beside a double it is a double
SELECT id FROM p WHERE f = 4.44 OR r IN (f, 4.44)
--
SELECT id FROM p WHERE f = 4.44 OR r IN (f, 4.44)

## with an exponent it is a double
SELECT id FROM p WHERE r = 4.44e0
--
SELECT id FROM p WHERE r = 4.44e0

## a constant of an Arrow type
SELECT arrow_cast('4.44', 'Float32') NOT IN (4.44, 0.001) AS x
--
SELECT arrow_cast('4.44', 'Float32') NOT IN (CAST(4.44 AS REAL), CAST(0.001 AS REAL)) AS x

## arithmetic is that of doubles
SELECT r * 1.5 AS x FROM p
--
SELECT r * 1.5 AS x FROM p

## a result with a REAL is a REAL
SELECT coalesce(r, 0.1) AS x, CASE WHEN r IN (4.44, 4) THEN r ELSE 1.5 END AS y FROM p UNION SELECT 4.44, 1
--
SELECT coalesce(r, CAST(0.1 AS REAL)) AS x, CASE WHEN r IN (CAST(4.44 AS REAL), 4) THEN r ELSE CAST(1.5 AS REAL) END AS y FROM p UNION SELECT CAST(4.44 AS REAL), 1
