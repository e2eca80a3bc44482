Tables: t (id BIGINT, i BIGINT, s TEXT).

## texts
SELECT to_timestamp_seconds(s) AS x, to_timestamp(s, '%Y') AS y FROM t
--
SELECT nullif(arrow_cast(arrow_cast(to_timestamp_seconds(s), 'Timestamp(Second, None)'), 'Timestamp(Second, Some("+00:00"))'), NULL) AS x, nullif(arrow_cast(arrow_cast(to_timestamp(s, '%Y'), 'Timestamp(Nanosecond, None)'), 'Timestamp(Nanosecond, Some("+00:00"))'), NULL) AS y FROM t

## numbers and constants
SELECT to_timestamp_seconds(i) AS x, to_timestamp('2024-01-01') AS y FROM t
--
SELECT to_timestamp_seconds(i) AS x, to_timestamp('2024-01-01') AS y FROM t
