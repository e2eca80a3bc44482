Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## texts and timestamps are of UTC
SELECT id FROM t WHERE at = '2024-07-01 12:00:00' AND at > TIMESTAMP '2024-03-10 02:30:00'
--
SELECT id FROM t WHERE at = arrow_cast(arrow_cast('2024-07-01 12:00:00', 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))') AND at > arrow_cast(arrow_cast(CAST('2024-03-10 02:30:00' AS TIMESTAMP), 'Timestamp(Nanosecond, Some("+00:00"))'), 'Timestamp(Nanosecond, Some("America/New_York"))')

## columns
SELECT id FROM t WHERE at = ts OR at IN (SELECT ts FROM t AS u)
--
SELECT id FROM t WHERE at = arrow_cast(arrow_cast(ts, 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))') OR at IN (SELECT arrow_cast(arrow_cast(ts, 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))') AS "ts" FROM t AS u)

## intervals are added in UTC
SELECT at + INTERVAL '1 DAY' AS x, ts + INTERVAL '1 DAY' AS y, at - ts AS z FROM t
--
SELECT arrow_cast(arrow_cast(at, 'Timestamp(Microsecond, Some("+00:00"))') + INTERVAL '1 DAY', 'Timestamp(Microsecond, Some("America/New_York"))') AS x, ts + INTERVAL '1 DAY' AS y, at - ts AS z FROM t

## set operations
SELECT at FROM t UNION SELECT ts FROM t
--
SELECT at FROM t UNION SELECT arrow_cast(arrow_cast(ts, 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))') AS "ts" FROM t

## joins by names
SELECT * FROM t JOIN (SELECT ts AS at FROM t) AS u USING (at)
--
SELECT * FROM t JOIN (SELECT arrow_cast(arrow_cast("at", 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))') AS "at" FROM (SELECT ts AS at FROM t) AS u) AS "u" USING (at)

## two times with a zone
SELECT id FROM t WHERE at = arrow_cast(ts, 'Timestamp(us, "UTC")')
--
SELECT id FROM t WHERE at = arrow_cast(ts, 'Timestamp(us, "UTC")')

## parts and texts are those in UTC
SELECT extract(hour FROM at) AS h, date_trunc('day', at), CAST(at AS DATE), to_char(at, 'HH24') AS c, extract(hour FROM ts) AS g FROM t
--
SELECT EXTRACT(HOUR FROM arrow_cast(at, 'Timestamp(Microsecond, Some("+00:00"))')) AS h, arrow_cast(arrow_cast(date_trunc('day', arrow_cast(at, 'Timestamp(Microsecond, None)')), 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))'), CAST(arrow_cast(at, 'Timestamp(Microsecond, Some("+00:00"))') AS DATE), to_char(arrow_cast(at, 'Timestamp(Microsecond, None)'), 'HH24') AS c, EXTRACT(HOUR FROM ts) AS g FROM t

## AT TIME ZONE
SELECT at AT TIME ZONE 'Asia/Tokyo' AS a, ts AT TIME ZONE 'UTC' AS b, '2024-07-01' AT TIME ZONE 'Asia/Tokyo' AS c FROM t
--
SELECT to_local_time(arrow_cast(at, 'Timestamp(Microsecond, Some("Asia/Tokyo"))')) AS a, arrow_cast(ts, 'Timestamp(Microsecond, Some("+00:00"))') AS b, to_local_time(arrow_cast(arrow_cast('2024-07-01', 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("Asia/Tokyo"))')) AS c FROM t

## a time of a zone may be skipped, or come twice
SELECT id FROM t WHERE ts AT TIME ZONE 'Asia/Tokyo' IS NULL
--
SELECT id FROM t WHERE coalesce(arrow_cast(arrow_try_cast(ts, 'Timestamp(Microsecond, Some("Asia/Tokyo"))'), 'Timestamp(Microsecond, Some("+00:00"))'), greatest(arrow_cast(arrow_try_cast(ts - INTERVAL '1 DAY', 'Timestamp(Microsecond, Some("Asia/Tokyo"))'), 'Timestamp(Microsecond, Some("+00:00"))') + INTERVAL '24 HOURS', arrow_cast(arrow_try_cast(ts + INTERVAL '1 DAY', 'Timestamp(Microsecond, Some("Asia/Tokyo"))'), 'Timestamp(Microsecond, Some("+00:00"))') - INTERVAL '24 HOURS')) IS NULL

## times of UTC in results with those of another zone
SELECT CASE WHEN id = 1 THEN TIMESTAMPTZ '2024-07-01 12:00:00Z' ELSE at END AS x, at < TIMESTAMPTZ '2024-07-01 12:00:00Z' AS y FROM t
--
SELECT CASE WHEN id = 1 THEN arrow_cast(arrow_cast(CAST('2024-07-01 12:00:00Z' AS TIMESTAMPTZ), 'Timestamp(Nanosecond, Some("+00:00"))'), 'Timestamp(Nanosecond, Some("America/New_York"))') ELSE at END AS x, at < arrow_cast(arrow_cast(CAST('2024-07-01 12:00:00Z' AS TIMESTAMPTZ), 'Timestamp(Nanosecond, Some("+00:00"))'), 'Timestamp(Nanosecond, Some("America/New_York"))') AS y FROM t

## literals without a unit have microseconds in another zone
SELECT TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'UTC' AS x, TIMESTAMP '2024-07-01 12:00:00.1234567' AT TIME ZONE 'UTC' AS y FROM t
--
SELECT arrow_cast(CAST('2024-07-01 12:00:00' AS TIMESTAMP), 'Timestamp(Microsecond, Some("+00:00"))') AS x, arrow_cast(CAST('2024-07-01 12:00:00.1234567' AS TIMESTAMP), 'Timestamp(Nanosecond, Some("+00:00"))') AS y FROM t

## results of several zones beside a date
SELECT id FROM t WHERE coalesce(at, arrow_cast('2024-07-01 12:00:00', 'Timestamp(us, "+00:00")')) = DATE '2024-07-01'
--
SELECT id FROM t WHERE coalesce(at, arrow_cast(arrow_cast('2024-07-01 12:00:00', 'Timestamp(us, "+00:00")'), 'Timestamp(Microsecond, Some("America/New_York"))')) = arrow_cast(arrow_cast(CAST('2024-07-01' AS DATE), 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))')
