SQL of the dialect bigquery, what DataFusion is given, and the rows; parameters are 1, 40, 1, 3.

## backticks quote, and text has two quotes
select `id`, "some text" as x, 'it' as y from `t` where b = 10
--
SELECT "id", 'some text' AS "x", 'it' AS "y" FROM "t" WHERE "b" = 10
--
(1, 'some text', 'it')

## IF, IFNULL, SAFE_DIVIDE
select if(a > 1, 'x', 'y') as i, ifnull(a, 0) as n, safe_divide(a, b) as s, div(7, 2) as d, 7 / 2 as q, mod(7, 4) as m from t where id < 3
--
SELECT CASE WHEN "a" > 1 THEN 'x' ELSE 'y' END AS "i", COALESCE("a", 0) AS "n", CASE WHEN "b" <> 0 THEN CAST("a" AS DOUBLE PRECISION) / "b" ELSE NULL END AS "s", CAST(7 / 2 AS BIGINT) AS "d", CAST(7 AS DOUBLE PRECISION) / 2 AS "q", 7 % 4 AS "m" FROM "t" WHERE "id" < 3
--
('y', 1, 0.1, 3, 3.5, 3)
('x', 2, None, 3, 3.5, 3)

## casts
select safe_cast('x' as int64) as s, cast(7 as string) as t, cast('1.5' as float64) as f, cast('2.5' as numeric) as n
--
SELECT TRY_CAST('x' AS BIGINT) AS "s", CAST(7 AS VARCHAR) AS "t", CAST('1.5' AS DOUBLE PRECISION) AS "f", CAST('2.5' AS DECIMAL(38, 9)) AS "n"
--
(None, '7', 1.5, '2.500000000')

## DATE_ADD and DATE_DIFF
select date_add(d, interval 1 month) as a, date_sub(d, interval 2 day) as b, date_diff(date '2024-03-01', d, day) as f, date_diff(date '2024-03-01', d, month) as m, timestamp_diff(timestamp '2024-01-31 15:00:00', ts, hour) as h, timestamp_add(ts, interval 1 hour) as t from t where id = 1
--
SELECT ("d" + INTERVAL '1 MONTH') AS "a", ("d" - INTERVAL '2 DAY') AS "b", CAST((CAST(CAST('2024-03-01' AS DATE) AS DATE) - CAST("d" AS DATE)) AS BIGINT) AS "f", CAST(((date_part('year', CAST('2024-03-01' AS DATE)) - date_part('year', "d")) * 12 + date_part('month', CAST('2024-03-01' AS DATE)) - date_part('month', "d")) AS BIGINT) AS "m", CAST(trunc((date_part('epoch', CAST('2024-01-31 15:00:00' AS TIMESTAMPTZ)) - date_part('epoch', "ts")) / 3600) AS BIGINT) AS "h", (date_trunc('microsecond', "ts") + INTERVAL '1 HOUR') AS "t" FROM "t" WHERE "id" = 1
--
('2024-02-29', '2024-01-29', 30, 2, 1, '2024-01-31 14:45:59')

## weeks begin on Sundays, unless they are ISO's
select date_diff(date '2024-01-07', date '2024-01-06', week) as w, date_diff(date '2024-01-07', date '2024-01-06', isoweek) as i, date_trunc(date '2024-01-09', week) as t, date_trunc(date '2024-01-09', isoweek) as s
--
SELECT CAST(((date_part('epoch', date_trunc('week', (CAST('2024-01-07' AS DATE) + INTERVAL '1 DAY'))) - date_part('epoch', date_trunc('week', (CAST('2024-01-06' AS DATE) + INTERVAL '1 DAY')))) / 604800) AS BIGINT) AS "w", CAST(((date_part('epoch', date_trunc('week', CAST('2024-01-07' AS DATE))) - date_part('epoch', date_trunc('week', CAST('2024-01-06' AS DATE)))) / 604800) AS BIGINT) AS "i", CAST((date_trunc('week', CAST('2024-01-09' AS DATE) + INTERVAL '1 DAY') - INTERVAL '1 DAY') AS DATE) AS "t", CAST(date_trunc('week', CAST('2024-01-09' AS DATE)) AS DATE) AS "s"
--
(1, 0, '2024-01-07', '2024-01-08')

## truncated moments
select date_trunc(d, month) as m, timestamp_trunc(ts, hour) as h, datetime_trunc(ts, day) as y from t where id = 1
--
SELECT CAST(date_trunc('month', "d") AS DATE) AS "m", date_trunc('hour', "ts") AS "h", date_trunc('day', "ts") AS "y" FROM "t" WHERE "id" = 1
--
('2024-01-01', '2024-01-31 13:00:00', '2024-01-31 00:00:00')

## parts of dates
select extract(year from d) as y, extract(dayofweek from d) as w, extract(dayofyear from d) as j, extract(isoweek from d) as k, extract(date from ts) as e from t where id = 1
--
SELECT date_part('year', "d") AS "y", (date_part('dow', "d") + 1) AS "w", date_part('doy', "d") AS "j", date_part('week', "d") AS "k", CAST("ts" AS DATE) AS "e" FROM "t" WHERE "id" = 1
--
(2024, 4, 31, 5, '2024-01-31')

## formats of dates
select format_date('%Y/%m', d) as x, format_timestamp('%F', ts) as f, parse_date('%d/%m/%Y', '03/02/2024') as z, date(2024, 1, 2) as e from t where id = 1
--
SELECT to_char(CAST("d" AS DATE), '%Y/%m') AS "x", to_char(CAST("ts" AS TIMESTAMP), '%Y-%m-%d') AS "f", to_date('03/02/2024', '%d/%m/%Y') AS "z", make_date(2024, 1, 2) AS "e" FROM "t" WHERE "id" = 1
--
('2024/01', '2024-01-31', '2024-02-03', '2024-01-02')

## arrays count from an offset
select arr[offset(0)] as f, arr[ordinal(1)] as o, array_length(arr) as n, struct(1 as p).p as p from t where id = 1
--
SELECT "arr"[1] AS "f", "arr"[1] AS "o", cardinality("arr") AS "n", get_field(named_struct('p', 1), 'p') AS "p" FROM "t" WHERE "id" = 1
--
(1, 1, 2, 1)

## UNNEST beside a table
select id, x from t, unnest(arr) as x
--
SELECT "id", "x" FROM (SELECT "t".*, UNNEST("arr") AS "x" FROM "t") AS "t"
--
(1, 1)
(1, 2)
(2, 3)

## UNNEST of its own
select x from unnest([3, 1, 2]) as x order by x
--
SELECT "x" FROM UNNEST(ARRAY[3, 1, 2]) AS _t0("x") ORDER BY "x" NULLS FIRST
--
(1,)
(2,)
(3,)

## a value in an array
select id from t where b in unnest([10, 40])
--
SELECT "id" FROM "t" WHERE "b" IN (SELECT UNNEST(ARRAY[10, 40]))
--
(1,)
(4,)

## * EXCEPT and REPLACE
select * except (arr, st, d, ts) replace (b + 1 as b) from t where id = 1
--
SELECT * EXCEPT ("arr", "st", "d", "ts") REPLACE ("b" + 1 AS "b") FROM "t" WHERE "id" = 1
--
(1, 1, 11, 'x-1', 1.5)

## COUNTIF and its kind
select countif(b > 5) as c, logical_and(b >= 0) as l, approx_count_distinct(b) as d, any_value(s) as v, string_agg(s, '-' order by id) as g, array_agg(a ignore nulls order by id) as r from t
--
SELECT count(CASE WHEN "b" > 5 THEN 1 END) AS "c", BOOL_AND("b" >= 0) AS "l", approx_distinct("b") AS "d", first_value("s") FILTER (WHERE "s" IS NOT NULL) AS "v", string_agg(CAST("s" AS VARCHAR), '-' ORDER BY "id" NULLS FIRST) AS "g", array_agg("a" ORDER BY "id" NULLS FIRST) FILTER (WHERE "a" IS NOT NULL) AS "r" FROM "t"
--
(3, True, 4, 'x-1', 'x-1-yy-abc', [1, 2, 4])

## QUALIFY
select id from t where true qualify rank() over (order by b desc) = 1
--
SELECT "id" FROM "t" WHERE TRUE QUALIFY RANK() OVER (ORDER BY "b" DESC NULLS LAST) = 1
--
(4,)

## text
select concat(s, '-', 'z') as c, strpos(s, 'y') as i, starts_with(s, 'y') as w, substr(s, 2) as u, length(s) as n, lower('X') as l, split('a,b', ',')[offset(1)] as p, r'\d' as r from t where id = 2
--
SELECT "s" || '-' || 'z' AS "c", strpos("s", 'y') AS "i", starts_with("s", 'y') AS "w", substr("s", 2) AS "u", length("s") AS "n", LOWER('X') AS "l", string_to_array('a,b', ',')[2] AS "p", '\d' AS "r" FROM "t" WHERE "id" = 2
--
('yy-z', 1, True, 'y', 2, 'x', 'b', '\\d')

## regular expressions
select regexp_contains(s, r'^x') as c, regexp_extract(s, r'([a-z])-') as e, regexp_extract(s, r'[a-z]+') as w, regexp_replace(s, r'[xy]', '_') as p from t where id = 1
--
SELECT regexp_like("s", '^x') AS "c", (regexp_match("s", '([a-z])-'))[1] AS "e", (regexp_match("s", '([a-z]+)'))[1] AS "w", regexp_replace("s", '[xy]', '_', 'g') AS "p" FROM "t" WHERE "id" = 1
--
(True, 'x', 'x', '_-1')

## NULLs come first
select a from t order by a limit 1
--
SELECT "a" FROM "t" ORDER BY "a" NULLS FIRST LIMIT 1
--
(None,)

## GREATEST with NULL
select greatest(a, b) as g from t where id = 3
--
SELECT CASE WHEN "a" IS NULL OR "b" IS NULL THEN NULL ELSE greatest("a", "b") END AS "g" FROM "t" WHERE "id" = 3
--
(None,)

## named parameters
select id from t where b >= @low and b < @high
--
SELECT "id" FROM "t" WHERE "b" >= $1 AND "b" < $2
--
(1,)
(3,)

## operands keep their brackets
select div(b + 4, 2) as d, greatest(a = 1, b > 5) as g, any_value(a = 1 or b = 0) as v, date_diff(d + 1, d - 1, day) as f from t where id = 1 group by b, a, d
--
SELECT CAST(("b" + 4) / 2 AS BIGINT) AS "d", CASE WHEN ("a" = 1) IS NULL OR ("b" > 5) IS NULL THEN NULL ELSE greatest("a" = 1, "b" > 5) END AS "g", first_value("a" = 1 OR "b" = 0) FILTER (WHERE ("a" = 1 OR "b" = 0) IS NOT NULL) AS "v", CAST((CAST(("d" + 1) AS DATE) - CAST(("d" - 1) AS DATE)) AS BIGINT) AS "f" FROM "t" WHERE "id" = 1 GROUP BY "b", "a", "d"
--
(7, True, True, 2)

## an offset from a column
select arr[offset(id - 1)] as x, arr[ordinal(id)] as y from t where id < 3
--
SELECT "arr"[("id" - 1) + 1] AS "x", "arr"["id"] AS "y" FROM "t" WHERE "id" < 3
--
(1, 1)
(None, None)
