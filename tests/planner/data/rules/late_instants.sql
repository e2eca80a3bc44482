Tables: t (id BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## texts, dates and times beside a time
SELECT NULLIF(ts, '9999-12-31') AS x FROM t WHERE ts < CAST('9999-12-31' AS DATE) AND ts IN ('2024-01-01', CAST('9999-12-31 00:00:00' AS TIMESTAMP)) AND at < '9999-12-31'
--
SELECT NULLIF(ts, arrow_cast('9999-12-31', 'Timestamp(Microsecond, None)')) AS x FROM t WHERE ts < arrow_cast('9999-12-31', 'Timestamp(Microsecond, None)') AND ts IN (arrow_cast('2024-01-01', 'Timestamp(Microsecond, None)'), arrow_cast('9999-12-31 00:00:00', 'Timestamp(Microsecond, None)')) AND at < arrow_cast(arrow_cast('9999-12-31', 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))')

## other literals
SELECT id FROM t WHERE ts < '2024-01-01' AND s < '9999-12-31'
--
SELECT id FROM t WHERE ts < '2024-01-01' AND s < '9999-12-31'

## literals that no time is beside
SELECT CAST('9999-12-31' AS TIMESTAMP) AS x, CAST('0001-01-01' AS TIMESTAMPTZ) AS y
--
SELECT CAST('9999-12-31' AS TIMESTAMP(6)) AS x, arrow_cast('0001-01-01', 'Timestamp(Microsecond, Some("+00:00"))') AS y

## the first day of a unit
SELECT date_trunc('month', ts) AS x, date_trunc('day', ts) AS y, date_trunc('year', at) AS z FROM t
--
SELECT arrow_cast(make_date(date_part('year', ts), date_part('month', ts), 1), 'Timestamp(Microsecond, None)') AS x, date_trunc('day', ts) AS y, arrow_cast(arrow_cast(make_date(date_part('year', arrow_cast(at, 'Timestamp(Microsecond, Some("+00:00"))')), 1, 1), 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))') AS z FROM t

## bins
SELECT date_bin(INTERVAL '15 MINUTES', ts) AS x, date_bin(INTERVAL '1 DAY', ts, CAST('2000-01-03' AS TIMESTAMP)) AS y, date_bin(INTERVAL '1 MONTH', ts) AS z FROM t
--
SELECT arrow_cast(arrow_cast(ts, 'Int64') - ((arrow_cast(ts, 'Int64') - 0) % 900000000 + 900000000) % 900000000, 'Timestamp(Microsecond, None)') AS x, arrow_cast(arrow_cast(ts, 'Int64') - ((arrow_cast(ts, 'Int64') - 946857600000000) % 86400000000 + 86400000000) % 86400000000, 'Timestamp(Microsecond, None)') AS y, date_bin(INTERVAL '1 MONTH', ts) AS z FROM t

## years of times with nanoseconds
SELECT EXTRACT(YEAR FROM arrow_cast(ts, 'Timestamp(ns)')) < 9999 AS x, date_part('year', arrow_cast(ts, 'Timestamp(ns)')) = 2024 AS y FROM t WHERE date_part('year', ts) < 9999
--
SELECT (EXTRACT(YEAR FROM arrow_cast(ts, 'Timestamp(ns)')) + 0) < 9999 AS x, date_part('year', arrow_cast(ts, 'Timestamp(ns)')) = 2024 AS y FROM t WHERE date_part('year', ts) < 9999

## dates, other zones, and texts of times in UTC
SELECT date_trunc('week', day) AS a, date_trunc('hour', day) AS b, date_trunc('day', at) AS c, to_char(utc, 'YYYY-MM-DD') AS d, to_char(utc, 'TZ') AS e, to_char(ts, 'YYYY') AS f FROM mixed, t, (SELECT arrow_cast(ts, 'Timestamp(Millisecond, Some("UTC"))') AS utc FROM t) AS q
--
SELECT arrow_cast(arrow_cast(arrow_cast(CAST(arrow_cast(day, 'Timestamp(Microsecond, None)') AS DATE), 'Int32') - (date_part('isodow', arrow_cast(day, 'Timestamp(Microsecond, None)')) - 1), 'Date32'), 'Timestamp(Microsecond, None)') AS a, date_trunc('hour', arrow_cast(day, 'Timestamp(Microsecond, None)')) AS b, arrow_cast(arrow_cast(CAST(arrow_cast(at, 'Timestamp(Microsecond, Some("+00:00"))') AS DATE), 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))') AS c, to_char(arrow_cast(utc, 'Timestamp(Millisecond, None)'), 'YYYY-MM-DD') AS d, to_char(utc, 'TZ') AS e, to_char(ts, 'YYYY') AS f FROM mixed, t, (SELECT arrow_cast(ts, 'Timestamp(Millisecond, Some("UTC"))') AS utc FROM t) AS q
