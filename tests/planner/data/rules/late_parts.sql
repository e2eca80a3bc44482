Tables: t (id BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## the first day of a unit
SELECT date_trunc('month', ts) AS x, date_trunc('day', ts) AS y, date_trunc('year', at) AS z FROM t
--
SELECT arrow_cast(make_date(date_part('year', ts), date_part('month', ts), 1), 'Timestamp(Microsecond, None)') AS x, date_trunc('day', ts) AS y, date_trunc('year', at) AS z FROM t

## bins
SELECT date_bin(INTERVAL '15 MINUTES', ts) AS x, date_bin(INTERVAL '1 DAY', ts, CAST('2000-01-03' AS TIMESTAMP)) AS y, date_bin(INTERVAL '1 MONTH', ts) AS z FROM t
--
SELECT arrow_cast(arrow_cast(ts, 'Int64') - ((arrow_cast(ts, 'Int64') - 0) % 900000000 + 900000000) % 900000000, 'Timestamp(Microsecond, None)') AS x, arrow_cast(arrow_cast(ts, 'Int64') - ((arrow_cast(ts, 'Int64') - 946857600000000) % 86400000000 + 86400000000) % 86400000000, 'Timestamp(Microsecond, None)') AS y, date_bin(INTERVAL '1 MONTH', ts) AS z FROM t

## years of times with nanoseconds
SELECT EXTRACT(YEAR FROM arrow_cast(ts, 'Timestamp(ns)')) < 9999 AS x, date_part('year', arrow_cast(ts, 'Timestamp(ns)')) = 2024 AS y FROM t WHERE date_part('year', ts) < 9999
--
SELECT (EXTRACT(YEAR FROM arrow_cast(ts, 'Timestamp(ns)')) + 0) < 9999 AS x, date_part('year', arrow_cast(ts, 'Timestamp(ns)')) = 2024 AS y FROM t WHERE date_part('year', ts) < 9999

## years in brackets and casts, and in other comparisons
SELECT id FROM (SELECT id, arrow_cast(ts, 'Timestamp(ns)') AS n FROM t) AS q WHERE (date_part('year', n)) IS DISTINCT FROM 0 OR CAST(date_part('year', n) AS BIGINT) <> -5 OR date_part('year', n) NOT IN (2024, 3000) OR date_part('year', n) IN (2024)
--
SELECT id FROM (SELECT id, arrow_cast(ts, 'Timestamp(ns)') AS n FROM t) AS q WHERE (((date_part('year', n) + 0)) IS DISTINCT FROM 0) OR CAST((date_part('year', n) + 0) AS BIGINT) <> -5 OR (date_part('year', n) + 0) NOT IN (2024, 3000) OR date_part('year', n) IN (2024)

## texts of times in UTC
SELECT to_char(utc, 'YYYY-MM-DD') AS d, to_char(utc, 'TZ') AS e, to_char(ts, 'YYYY') AS f FROM t, (SELECT arrow_cast(ts, 'Timestamp(Millisecond, Some("UTC"))') AS utc FROM t) AS q
--
SELECT to_char(arrow_cast(utc, 'Timestamp(Millisecond, None)'), 'YYYY-MM-DD') AS d, to_char(utc, 'TZ') AS e, to_char(ts, 'YYYY') AS f FROM t, (SELECT arrow_cast(ts, 'Timestamp(Millisecond, Some("UTC"))') AS utc FROM t) AS q

## constants
SELECT date_trunc('minute', TIMESTAMP(6) '9999-12-31 23:59:59') AS x, date_trunc('day', TIMESTAMP '2024-07-01 12:00:00') AS y
--
SELECT arrow_cast(arrow_cast(CAST('9999-12-31 23:59:59' AS TIMESTAMP(6)), 'Int64') - ((arrow_cast(CAST('9999-12-31 23:59:59' AS TIMESTAMP(6)), 'Int64') - 0) % 60000000 + 60000000) % 60000000, 'Timestamp(Microsecond, None)') AS x, date_trunc('day', CAST('2024-07-01 12:00:00' AS TIMESTAMP)) AS y
