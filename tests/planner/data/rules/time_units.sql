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
SELECT coalesce(nullif(arrow_cast(ts, 'Timestamp(Nanosecond, None)'), NULL), arrow_cast('2024-03-10 02:30:00.123456789', 'Timestamp(Nanosecond, None)')) AS x FROM t

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
SELECT id FROM t WHERE nullif(arrow_cast(arrow_cast(ts, 'Timestamp(Second, None)'), 'Timestamp(Microsecond, None)'), NULL) IN (arrow_cast('2024-07-01 12:00:00.50', 'Timestamp(Microsecond, None)'), ts) OR nullif(arrow_cast(arrow_cast(at, 'Timestamp(Millisecond, Some("UTC"))'), 'Timestamp(Microsecond, Some("UTC"))'), NULL) = arrow_cast(arrow_cast('2024-07-01 12:00:00.0001Z', 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("UTC"))') OR ts = '2024-07-01 12:00:00.5'

## casts of dates and coarser times have microseconds
SELECT CAST(ts AS TIMESTAMP) AS a, CAST(at AS TIMESTAMPTZ) AS b, ts::TIMESTAMP(9) AS c, CAST(s AS TIMESTAMP) AS d FROM t
--
SELECT arrow_cast(ts, 'Timestamp(Microsecond, None)') AS a, arrow_cast(at, 'Timestamp(Microsecond, Some("+00:00"))') AS b, CAST(ts AS TIMESTAMP(9)) AS c, CAST(s AS TIMESTAMP) AS d FROM t

## a far literal and another one
SELECT id FROM t WHERE ts IN (TIMESTAMP(6) '9999-12-31 00:00:00', TIMESTAMP '2024-03-10 02:30:00')
--
SELECT id FROM t WHERE ts IN (CAST('9999-12-31 00:00:00' AS TIMESTAMP(6)), arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)'))

## set operations
SELECT ts, s FROM t UNION SELECT TIMESTAMP '2024-03-10 02:30:00', s FROM t EXCEPT SELECT CAST('9999-12-31' AS DATE), 'b' FROM p
--
SELECT ts, s FROM t UNION SELECT arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)') AS "Utf8(""2024-03-10 02:30:00"")", s FROM t EXCEPT SELECT arrow_cast('9999-12-31', 'Timestamp(Microsecond, None)') AS "Utf8(""9999-12-31"")", 'b' FROM p

## literals of other queries
SELECT t.id FROM t JOIN (VALUES (TIMESTAMP '2024-03-10 02:30:00', '9999-12-31'), (NULL, '2024-03-10')) AS v(x, y) ON ts = x AND coalesce(ts, ts) > y WHERE ts NOT IN (SELECT TIMESTAMP '2024-03-10 02:30:00.5') AND at < (SELECT '9999-12-31 23:59:59')
--
SELECT t.id FROM t JOIN (VALUES (CAST('2024-03-10 02:30:00' AS TIMESTAMP), '9999-12-31'), (NULL, '2024-03-10')) AS v(x, y) ON ts = arrow_cast(x, 'Timestamp(Microsecond, None)') AND coalesce(ts, ts) > arrow_cast(y, 'Timestamp(Microsecond, None)') WHERE ts NOT IN (SELECT arrow_cast('2024-03-10 02:30:00.5', 'Timestamp(Microsecond, None)') AS "Utf8(""2024-03-10 02:30:00.5"")") AND at < arrow_cast(arrow_cast((SELECT '9999-12-31 23:59:59'), 'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))')

## literals with more digits than the time
SELECT t.id FROM t JOIN (SELECT arrow_cast(ts, 'Timestamp(Second, None)') AS sec FROM t) AS q ON sec = TIMESTAMP '2024-03-10 02:30:00.5' AND sec IN ('2024-03-10 02:30:00', '2024-03-10 02:30:00.123456789') AND arrow_cast(sec, 'Timestamp(Microsecond, None)') > '2024-03-10 02:30:00.5'
--
SELECT t.id FROM t JOIN (SELECT arrow_cast(ts, 'Timestamp(Second, None)') AS sec FROM t) AS q ON nullif(arrow_cast(sec, 'Timestamp(Millisecond, None)'), NULL) = CAST('2024-03-10 02:30:00.5' AS TIMESTAMP) AND nullif(arrow_cast(sec, 'Timestamp(Nanosecond, None)'), NULL) IN ('2024-03-10 02:30:00', '2024-03-10 02:30:00.123456789') AND nullif(arrow_cast(arrow_cast(sec, 'Timestamp(Microsecond, None)'), 'Timestamp(Microsecond, None)'), NULL) > arrow_cast('2024-03-10 02:30:00.5', 'Timestamp(Microsecond, None)')

## differences
SELECT ts - TIMESTAMP '2024-03-10 02:30:00' AS d, CAST(s AS DATE) - ts AS e FROM t
--
SELECT ts - arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)') AS d, arrow_cast(CAST(s AS DATE), 'Timestamp(Microsecond, None)') - ts AS e FROM t

## dates beside literals of times
SELECT day - TIMESTAMP '2024-03-10 02:30:00' AS c FROM mixed WHERE day < TIMESTAMP '2024-03-10 02:30:00' AND day <> '2024-03-10'
--
SELECT arrow_cast(day, 'Timestamp(Microsecond, None)') - arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)') AS c FROM mixed WHERE arrow_cast(day, 'Timestamp(Microsecond, None)') < arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)') AND day <> '2024-03-10'

## starts of units of dates
SELECT date_trunc('week', day) AS a FROM mixed WHERE date_trunc('day', day) < '9999-12-31'
--
SELECT date_trunc('week', arrow_cast(day, 'Timestamp(Microsecond, None)')) AS a FROM mixed WHERE date_trunc('day', arrow_cast(day, 'Timestamp(Microsecond, None)')) < arrow_cast('9999-12-31', 'Timestamp(Microsecond, None)')

## a literal with an interval
SELECT id FROM t WHERE ts > TIMESTAMP '2024-03-10 02:30:00' + INTERVAL '1 day'
--
SELECT id FROM t WHERE ts > arrow_cast(CAST('2024-03-10 02:30:00' AS TIMESTAMP) + INTERVAL '1 DAY', 'Timestamp(Microsecond, None)')

## CASE of literals
SELECT id FROM (SELECT id, arrow_cast(ts, 'Timestamp(ms)') AS ms FROM t) AS q WHERE ms = CASE WHEN id > 1 THEN TIMESTAMP '2024-07-01 12:00:00' END
--
SELECT id FROM (SELECT id, arrow_cast(ts, 'Timestamp(ms)') AS ms FROM t) AS q WHERE ms = arrow_cast(CASE WHEN id > 1 THEN CAST('2024-07-01 12:00:00' AS TIMESTAMP) END, 'Timestamp(Millisecond, None)')

## a function of seconds beside a literal with a fraction
SELECT id FROM t WHERE to_timestamp_seconds(id) = '2024-07-01 12:00:00.5'
--
SELECT id FROM t WHERE nullif(arrow_cast(to_timestamp_seconds(id), 'Timestamp(Millisecond, None)'), NULL) = arrow_cast('2024-07-01 12:00:00.5', 'Timestamp(Millisecond, None)')

## brackets
SELECT id FROM t WHERE (to_timestamp_seconds(id)) = ('2024-07-01 12:00:00.5')
--
SELECT id FROM t WHERE (nullif(arrow_cast(to_timestamp_seconds(id), 'Timestamp(Millisecond, None)'), NULL)) = (arrow_cast('2024-07-01 12:00:00.5', 'Timestamp(Millisecond, None)'))
