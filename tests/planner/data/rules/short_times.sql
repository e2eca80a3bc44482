Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## times without seconds
SELECT id FROM t WHERE ts > '2024-03-10 02:30' AND at < TIMESTAMP '2024-03-10 02:30+02:00'
--
SELECT id FROM t WHERE ts > '2024-03-10 02:30:00' AND at < CAST('2024-03-10 02:30:00+02:00' AS TIMESTAMP)

## texts are left alone
SELECT id FROM t WHERE s = '2024-03-10 02:30'
--
SELECT id FROM t WHERE s = '2024-03-10 02:30'

## set operations and zones
SELECT ts FROM t UNION ALL SELECT '2024-03-10 02:30' UNION ALL SELECT '2024-03-10 02:30' AT TIME ZONE 'Asia/Tokyo'
--
SELECT ts FROM t UNION ALL SELECT '2024-03-10 02:30:00' UNION ALL SELECT '2024-03-10 02:30:00' AT TIME ZONE 'Asia/Tokyo'

## columns of VALUES and of subqueries
SELECT id FROM t JOIN (VALUES ('2024-03-10 02:30')) AS v(x) ON at = x WHERE ts IN (SELECT '2024-03-10 02:30 Z' FROM p) AND x > s
--
SELECT id FROM t JOIN (VALUES ('2024-03-10 02:30')) AS v(x) ON at = regexp_replace(x, '^(\s*[0-9-]{10}[ Tt][0-9]{2}:[0-9]{2})([^0-9:]|$)', '\1:00\2') WHERE ts IN (SELECT '2024-03-10 02:30:00 Z' AS "Utf8(""2024-03-10 02:30 Z"")" FROM p) AND x > s
