Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## times without seconds
SELECT id FROM t WHERE ts > '2024-03-10 02:30' AND at < TIMESTAMP '2024-03-10 02:30+02:00'
--
SELECT id FROM t WHERE ts > '2024-03-10 02:30:00' AND at < CAST('2024-03-10 02:30:00+02:00' AS TIMESTAMP)

## texts are left alone
SELECT id FROM t WHERE s = '2024-03-10 02:30'
--
SELECT id FROM t WHERE s = '2024-03-10 02:30'
