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
