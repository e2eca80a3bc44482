Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

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

## dates
SELECT coalesce(CAST(s AS DATE), ts) AS x FROM t WHERE ts = CAST(s AS DATE) AND ts > CAST('2024-03-10' AS DATE)
--
SELECT coalesce(arrow_cast(CAST(s AS DATE), 'Timestamp(Microsecond, None)'), ts) AS x FROM t WHERE ts = arrow_cast(CAST(s AS DATE), 'Timestamp(Microsecond, None)') AND ts > CAST('2024-03-10' AS DATE)

## CASE of a time
SELECT CASE ts WHEN TIMESTAMP '2024-03-10 02:30:00' THEN 1 END AS x FROM t
--
SELECT CASE ts WHEN arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)') THEN 1 END AS x FROM t

## texts with more digits
SELECT id FROM t WHERE arrow_cast(ts, 'Timestamp(Second, None)') IN ('2024-07-01 12:00:00.50', ts) OR arrow_cast(at, 'Timestamp(Millisecond, Some("UTC"))') = '2024-07-01 12:00:00.0001Z' OR ts = '2024-07-01 12:00:00.5'
--
SELECT id FROM t WHERE arrow_cast(ts, 'Timestamp(Second, None)') IN ('2024-07-01 12:00:00.50', ts) OR arrow_cast(arrow_cast(at, 'Timestamp(Millisecond, Some("UTC"))'), 'Timestamp(Microsecond, Some("UTC"))') = '2024-07-01 12:00:00.0001Z' OR ts = '2024-07-01 12:00:00.5'

## casts of dates and coarser times have microseconds
SELECT CAST(ts AS TIMESTAMP) AS a, CAST(at AS TIMESTAMPTZ) AS b, ts::TIMESTAMP(9) AS c, CAST(s AS TIMESTAMP) AS d FROM t
--
SELECT arrow_cast(ts, 'Timestamp(Microsecond, None)') AS a, arrow_cast(at, 'Timestamp(Microsecond, Some("+00:00"))') AS b, CAST(ts AS TIMESTAMP(9)) AS c, CAST(s AS TIMESTAMP) AS d FROM t

## a far literal and another one
SELECT id FROM t WHERE ts IN (TIMESTAMP(6) '9999-12-31 00:00:00', TIMESTAMP '2024-03-10 02:30:00')
--
SELECT id FROM t WHERE ts IN (CAST('9999-12-31 00:00:00' AS TIMESTAMP(6)), arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)'))
