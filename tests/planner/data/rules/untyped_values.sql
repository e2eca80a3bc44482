Tables: mixed (day DATE, flag BOOLEAN, large and fixed of bytes), t (id BIGINT, s TEXT, ts TIMESTAMP(6), ..).

## texts beside a date
SELECT coalesce(day, '2024-07-01'), greatest('2024-07-01', day), CASE WHEN flag THEN '2024-07-01' ELSE day END FROM mixed
--
SELECT coalesce(day, arrow_cast('2024-07-01', 'Date32')), greatest(arrow_cast('2024-07-01', 'Date32'), day), CASE WHEN flag THEN arrow_cast('2024-07-01', 'Date32') ELSE day END FROM mixed

## a time with a zone
SELECT coalesce(at, NULL, '2024-07-01 12:00:00') FROM (SELECT arrow_cast(ts, 'Timestamp(Microsecond, Some("UTC"))') AS at FROM t) AS x
--
SELECT coalesce(at, NULL, arrow_cast('2024-07-01 12:00:00', 'Timestamp(Microsecond, Some("UTC"))')) FROM (SELECT arrow_cast(ts, 'Timestamp(Microsecond, Some("UTC"))') AS at FROM t) AS x

## parameters
SELECT nullif(flag, $1), CASE flag WHEN $2 THEN 1 END FROM mixed WHERE least(flag, $3) AND coalesce(day, $4) > day
--
SELECT nullif(flag, arrow_cast($1, 'Boolean')), CASE flag WHEN arrow_cast($2, 'Boolean') THEN 1 END FROM mixed WHERE least(flag, arrow_cast($3, 'Boolean')) AND coalesce(day, arrow_cast($4, 'Date32')) > day

## numbers and texts are left alone
SELECT coalesce(id, '1'), coalesce(s, $1), CASE WHEN id = 1 THEN 'one' ELSE s END, coalesce(ts, NULL) FROM t
--
SELECT coalesce(id, '1'), coalesce(s, $1), CASE WHEN id = 1 THEN 'one' ELSE s END, coalesce(ts, NULL) FROM t

## a set operation and a condition with parameters
SELECT n, f FROM p WHERE $1 UNION ALL SELECT $2, $3
--
SELECT n, f FROM p WHERE CAST($1 AS BOOLEAN) UNION ALL SELECT $2, arrow_cast($3, 'Float64') AS "$3"

## booleans between texts
SELECT flag BETWEEN 'false' AND flag AS x, day BETWEEN '2024-07-01' AND day AS y FROM mixed
--
SELECT flag BETWEEN arrow_cast('false', 'Boolean') AND flag AS x, day BETWEEN '2024-07-01' AND day AS y FROM mixed

## nested values
SELECT coalesce(l, $1), CASE st WHEN st THEN 1 WHEN $2 THEN 2 END FROM lists UNION ALL SELECT $3, 3
--
SELECT coalesce(l, arrow_cast($1, 'List(nullable Int64)')), CASE st WHEN st THEN 1 WHEN arrow_cast($2, 'Struct("x": nullable Int64)') THEN 2 END FROM lists UNION ALL SELECT arrow_cast($3, 'List(nullable Int64)') AS "$3", 3

## booleans beside texts
SELECT flag = 'true' AS x, flag IN ('f', NULL) AS y, 't' IS DISTINCT FROM flag AS z, day = '2024-07-01' AS d FROM mixed
--
SELECT flag = arrow_cast('true', 'Boolean') AS x, flag IN (arrow_cast('f', 'Boolean'), NULL) AS y, arrow_cast('t', 'Boolean') IS DISTINCT FROM flag AS z, day = '2024-07-01' AS d FROM mixed

## texts beside conditions
SELECT id FROM t WHERE (i < 3) = 'yes' AND (s = 'true') IN ('t', 'false')
--
SELECT id FROM t WHERE (i < 3) = arrow_cast('yes', 'Boolean') AND (s = 'true') IN (arrow_cast('t', 'Boolean'), arrow_cast('false', 'Boolean'))
