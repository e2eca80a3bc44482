SQL of the dialect trino, what DataFusion is given, and the rows; parameters are 1, 40, 1, 3.

## names in double quotes
select "id" as "One Two", B from t where "b" = 10
--
SELECT "id" AS "One Two", "b" FROM "t" WHERE "b" = 10
--
(1, 10)

## integers divide to integers
select 7 / 2 as q, 7.0 / 2 as e, 7 % 4 as m
--
SELECT 7 / 2 AS "q", 7.0 / 2 AS "e", 7 % 4 AS "m"
--
(3, 3.5, 3)

## TRY_CAST
select try_cast('x' as bigint) as t, cast(7 as varchar) as s, cast('abc' as varchar(2)) as v, cast('2024-01-02' as date) as d
--
SELECT TRY_CAST('x' AS BIGINT) AS "t", CAST(7 AS VARCHAR) AS "s", left(CAST('abc' AS VARCHAR), 2) AS "v", CAST('2024-01-02' AS DATE) AS "d"
--
(None, '7', 'ab', '2024-01-02')

## IF
select if(a > 1, 'x', 'y') as i, if(a > 1, 'x') as j, coalesce(a, 0) as c, nullif(b, 0) as n from t
--
SELECT CASE WHEN "a" > 1 THEN 'x' ELSE 'y' END AS "i", CASE WHEN "a" > 1 THEN 'x' END AS "j", COALESCE("a", 0) AS "c", NULLIF("b", 0) AS "n" FROM "t"
--
('y', None, 1, 10)
('x', 'x', 2, None)
('y', None, 0, 30)
('x', 'x', 4, 40)

## DATE_ADD and DATE_DIFF
select date_add('month', 1, d) as a, date_add('day', -2, d) as b, date_diff('day', d, date '2024-03-01') as f, date_diff('month', d, date '2024-02-29') as m, date_diff('hour', ts, timestamp '2024-01-31 14:45:58') as h, d + interval '2' day as i from t where id = 1
--
SELECT ("d" + INTERVAL '1 MONTH') AS "a", ("d" + INTERVAL '-2 DAY') AS "b", CAST(trunc((date_part('epoch', CAST('2024-03-01' AS DATE)) - date_part('epoch', "d")) / 86400) AS BIGINT) AS "f", CAST(trunc((CASE WHEN CAST('2024-02-29' AS DATE) >= "d" THEN (((date_part('year', CAST('2024-02-29' AS DATE)) - date_part('year', "d")) * 12 + date_part('month', CAST('2024-02-29' AS DATE)) - date_part('month', "d")) - CASE WHEN "d" + CAST(CAST(((date_part('year', CAST('2024-02-29' AS DATE)) - date_part('year', "d")) * 12 + date_part('month', CAST('2024-02-29' AS DATE)) - date_part('month', "d")) AS VARCHAR) || ' MONTH' AS INTERVAL) > CAST('2024-02-29' AS DATE) THEN 1 ELSE 0 END) ELSE -(((date_part('year', "d") - date_part('year', CAST('2024-02-29' AS DATE))) * 12 + date_part('month', "d") - date_part('month', CAST('2024-02-29' AS DATE))) - CASE WHEN CAST('2024-02-29' AS DATE) + CAST(CAST(((date_part('year', "d") - date_part('year', CAST('2024-02-29' AS DATE))) * 12 + date_part('month', "d") - date_part('month', CAST('2024-02-29' AS DATE))) AS VARCHAR) || ' MONTH' AS INTERVAL) > "d" THEN 1 ELSE 0 END) END) / 1) AS BIGINT) AS "m", CAST(trunc((date_part('epoch', CAST('2024-01-31 14:45:58' AS TIMESTAMP(0))) - date_part('epoch', "ts")) / 3600) AS BIGINT) AS "h", "d" + INTERVAL '2 DAY' AS "i" FROM "t" WHERE "id" = 1
--
('2024-02-29', '2024-01-29', 30, 1, 0, '2024-02-02')

## truncated moments
select date_trunc('month', ts) as m, date_trunc('hour', ts) as h, last_day_of_month(d) as l from t where id = 1
--
SELECT date_trunc('month', "ts") AS "m", date_trunc('hour', "ts") AS "h", CAST(date_trunc('month', "d") + INTERVAL '1 MONTH' - INTERVAL '1 DAY' AS DATE) AS "l" FROM "t" WHERE "id" = 1
--
('2024-01-01 00:00:00', '2024-01-31 13:00:00', '2024-01-31')

## parts of dates
select year(d) as y, month(d) as m, day_of_week(d) as w, day_of_year(d) as j, week(d) as k, quarter(d) as q, extract(hour from ts) as h from t where id = 1
--
SELECT date_part('year', "d") AS "y", date_part('month', "d") AS "m", date_part('isodow', "d") AS "w", date_part('doy', "d") AS "j", date_part('week', "d") AS "k", date_part('quarter', "d") AS "q", date_part('hour', "ts") AS "h" FROM "t" WHERE "id" = 1
--
(2024, 1, 3, 31, 5, 1, 13)

## formats of dates
select date_format(ts, '%Y-%m-%d %H:%i:%s') as x, date_parse('03/02/2024', '%d/%m/%Y') as z, from_unixtime(86400) as u, to_unixtime(ts) as e from t where id = 1
--
SELECT to_char("ts", '%Y-%m-%d %H:%M:%S') AS "x", CAST(to_timestamp('03/02/2024', '%d/%m/%Y') AS TIMESTAMP) AS "z", CAST(to_timestamp_seconds(86400) AS TIMESTAMP) AS "u", date_part('epoch', "ts") AS "e" FROM "t" WHERE "id" = 1
--
('2024-01-31 13:45:59', '2024-02-03 00:00:00', '1970-01-02 00:00:00', 1706708759.0)

## arrays
select arr[1] as f, element_at(arr, 2) as e, cardinality(arr) as n, contains(arr, 2) as h, array_join(arr, '-') as j, array_agg(b) over () as g from t where id = 1
--
SELECT "arr"[1] AS "f", "arr"[2] AS "e", cardinality("arr") AS "n", array_has("arr", 2) AS "h", array_to_string("arr", '-') AS "j", array_agg("b") OVER () AS "g" FROM "t" WHERE "id" = 1
--
(1, 2, 2, True, '1-2', [10])

## CROSS JOIN UNNEST WITH ORDINALITY
select id, x, n from t cross join unnest(arr) with ordinality as u(x, n)
--
SELECT "id", "x", "n" FROM "t" CROSS JOIN UNNEST("arr") WITH ORDINALITY AS "u"("x", "n")
--
(1, 1, 1)
(1, 2, 2)
(2, 3, 1)

## CROSS JOIN UNNEST
select id, x from t cross join unnest(arr) as u(x)
--
SELECT "id", "x" FROM (SELECT "t".*, UNNEST("arr") AS "x" FROM "t") AS "t"
--
(1, 1)
(1, 2)
(2, 3)

## LISTAGG
select listagg(s, '-') within group (order by id desc) as l, array_agg(id order by b desc) as g from t
--
SELECT string_agg(CAST("s" AS VARCHAR), '-' ORDER BY "id" DESC NULLS LAST) AS "l", array_agg("id" ORDER BY "b" DESC NULLS LAST) AS "g" FROM "t"
--
('abc-yy-x-1', [4, 3, 1, 2])

## aggregates
select count_if(b > 5) as c, approx_distinct(b) as d, max_by(s, b) as m, min_by(s, b) as n, arbitrary(s) as v, bool_and(b >= 0) as o, stddev(b) as t from t
--
SELECT count(CASE WHEN "b" > 5 THEN 1 END) AS "c", approx_distinct("b") AS "d", first_value("s" ORDER BY "b" DESC) FILTER (WHERE "b" IS NOT NULL) AS "m", first_value("s" ORDER BY "b" ASC) FILTER (WHERE "b" IS NOT NULL) AS "n", first_value("s") FILTER (WHERE "s" IS NOT NULL) AS "v", BOOL_AND("b" >= 0) AS "o", STDDEV("b") AS "t" FROM "t"
--
(3, 4, None, 'yy', 'x-1', True, 18.257418584)

## FETCH FIRST
select id from t order by id offset 1 rows fetch first 2 rows only
--
SELECT "id" FROM "t" ORDER BY "id" LIMIT 2 OFFSET 1
--
(2,)
(3,)

## text
select concat(s, '-', 'z') as c, s || '!' as e, strpos(s, 'y') as i, substr(s, 2) as u, split_part(s, 'y', 1) as p, split('a,b', ',')[2] as k, starts_with(s, 'y') as w, lpad(s, 4, '.') as l from t where id = 2
--
SELECT "s" || '-' || 'z' AS "c", "s" || '!' AS "e", strpos("s", 'y') AS "i", substr("s", 2) AS "u", SPLIT_PART("s", 'y', 1) AS "p", string_to_array('a,b', ',')[2] AS "k", starts_with("s", 'y') AS "w", LPAD("s", 4, '.') AS "l" FROM "t" WHERE "id" = 2
--
('yy-z', 'yy!', 1, 'y', '', 'b', True, '..yy')

## regular expressions
select regexp_like(s, '^x') as c, regexp_extract(s, '([a-z])-', 1) as e, regexp_replace(s, '[xy]', '_') as p from t where id = 1
--
SELECT regexp_like("s", '^x') AS "c", (regexp_match("s", '([a-z])-'))[1] AS "e", regexp_replace("s", '[xy]', '_', 'g') AS "p" FROM "t" WHERE "id" = 1
--
(True, 'x', '_-1')

## NULLs come last, downwards too
select a from t order by a desc limit 1
--
SELECT "a" FROM "t" ORDER BY "a" DESC NULLS LAST LIMIT 1
--
(4,)

## GREATEST with NULL
select greatest(a, b) as g from t where id = 3
--
SELECT CASE WHEN "a" IS NULL OR "b" IS NULL THEN NULL ELSE greatest("a", "b") END AS "g" FROM "t" WHERE "id" = 3
--
(None,)

## grouping sets
select b % 20 as m, count(*) as n from t group by grouping sets ((b % 20), ()) order by n, m
--
SELECT "b" % 20 AS "m", COUNT(*) AS "n" FROM "t" GROUP BY GROUPING SETS (("b" % 20), ()) ORDER BY "n", "m"
--
(0, 2)
(10, 2)
(None, 4)

## parameters
select id from t where b > ? and id <> ?
--
SELECT "id" FROM "t" WHERE "b" > $1 AND "id" <> $2
--
(1,)
(3,)
(4,)

## a moment without a zone is one of UTC
select date_format(ts at time zone 'Europe/Berlin', '%H:%i') as h from t where id = 1
--
SELECT to_char(("ts" AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'), '%H:%M') AS "h" FROM "t" WHERE "id" = 1
--
('14:45',)

## a part that a text does not have
select split_part('a-b', '-', 2) as b, split_part('a-b', '-', 3) as c from t where id = 1
--
SELECT CASE WHEN 2 <= cardinality(string_to_array('a-b', '-')) THEN split_part('a-b', '-', 2) END AS "b", CASE WHEN 3 <= cardinality(string_to_array('a-b', '-')) THEN split_part('a-b', '-', 3) END AS "c" FROM "t" WHERE "id" = 1
--
('b', None)
