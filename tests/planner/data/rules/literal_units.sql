Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## results and lists
SELECT coalesce(ts, TIMESTAMP '2024-03-10 02:30:00') AS x FROM t WHERE ts NOT IN (ts, TIMESTAMP '2024-03-10 02:30:00.123456')
--
SELECT coalesce(ts, arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)')) AS x FROM t WHERE ts NOT IN (ts, arrow_cast('2024-03-10 02:30:00.123456', 'Timestamp(Microsecond, None)'))

## more digits than the others have
SELECT coalesce(ts, CAST('2024-03-10 02:30:00.123456789' AS TIMESTAMP)) AS x FROM t
--
SELECT coalesce(ts, CAST('2024-03-10 02:30:00.123456789' AS TIMESTAMP)) AS x FROM t

## a comparison with literals alone
SELECT id FROM t WHERE ts IN (CAST('2024-03-10 02:30:00' AS TIMESTAMP)) AND ts > CAST('2024-03-10 02:30:00' AS TIMESTAMP)
--
SELECT id FROM t WHERE ts IN (CAST('2024-03-10 02:30:00' AS TIMESTAMP)) AND ts > CAST('2024-03-10 02:30:00' AS TIMESTAMP)
