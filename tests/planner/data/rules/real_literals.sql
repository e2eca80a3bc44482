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

## arithmetic is that of doubles
SELECT r * 1.5 AS x FROM p
--
SELECT r * 1.5 AS x FROM p
