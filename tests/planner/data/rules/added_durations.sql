Tables: t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York).

## sums
SELECT ts + $1 AS x, $2 + at AS y FROM t
--
SELECT ts + arrow_cast($1, 'Duration(Microsecond)') AS x, arrow_cast($2, 'Duration(Microsecond)') + at AS y FROM t

## differences that are compared with a time
SELECT id FROM t WHERE at > now() - $1 AND ts BETWEEN $2 - $3 AND (ts - $4)
--
SELECT id FROM t WHERE at > now() - arrow_cast($1, 'Duration(Microsecond)') AND ts BETWEEN arrow_cast($2, 'Timestamp(Microsecond, None)') - arrow_cast($3, 'Duration(Microsecond)') AND (ts - arrow_cast($4, 'Duration(Microsecond)'))

## differences of two times
SELECT ts - $1 AS x FROM t WHERE ts - $2 > INTERVAL '1 DAY'
--
SELECT ts - $1 AS x FROM t WHERE ts - $2 > INTERVAL '1 DAY'

## numbers
SELECT i + $1 AS x, $2 - i AS y FROM t WHERE i > i - $3 AND $4 + $5 > 7
--
SELECT i + $1 AS x, $2 - i AS y FROM t WHERE i > i - $3 AND $4 + $5 > 7

## times of coarser units
SELECT date_trunc('day', arrow_cast(ts, 'Timestamp(Second, None)')) + $1 AS x FROM t WHERE arrow_cast(ts, 'Timestamp(Second, None)') > arrow_cast(ts, 'Timestamp(Second, None)') - $2
--
SELECT arrow_cast(date_trunc('day', arrow_cast(ts, 'Timestamp(Second, None)')), 'Timestamp(Microsecond, None)') + arrow_cast($1, 'Duration(Microsecond)') AS x FROM t WHERE arrow_cast(ts, 'Timestamp(Second, None)') > arrow_cast(arrow_cast(ts, 'Timestamp(Second, None)'), 'Timestamp(Microsecond, None)') - arrow_cast($2, 'Duration(Microsecond)')
