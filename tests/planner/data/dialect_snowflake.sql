SQL of the dialect snowflake, what DataFusion is given, and the rows; parameters are 1, 40, 1, 3.

## unquoted names fold, quoted ones stay
select ID, T.B as "Mixed" from T where "b" = 10
--
SELECT "id", "t"."b" AS "Mixed" FROM "t" WHERE "b" = 10
--
(1, 10)

## IFF and its kind
select iff(a > 1, 'x', 'y') as i, nvl(a, 0) as n, zeroifnull(a) as z, nvl2(a, 1, 2) as v, decode(b, 10, 'ten', 0, 'none', 'other') as d, equal_null(a, b) as e from t
--
SELECT CASE WHEN "a" > 1 THEN 'x' ELSE 'y' END AS "i", COALESCE("a", 0) AS "n", CASE WHEN "a" IS NULL THEN 0 ELSE "a" END AS "z", CASE WHEN NOT "a" IS NULL THEN 1 ELSE 2 END AS "v", CASE WHEN "b" = 10 THEN 'ten' WHEN "b" = 0 THEN 'none' ELSE 'other' END AS "d", ("a" IS NOT DISTINCT FROM "b") AS "e" FROM "t"
--
('y', 1, 1, 1, 'ten', False)
('x', 2, 2, 1, 'none', False)
('y', 0, 0, 2, 'other', False)
('x', 4, 4, 1, 'other', False)

## division is exact
select 7 / 2 as q, div0(7, 0) as z, mod(7, 4) as m
--
SELECT CAST(7 AS DOUBLE PRECISION) / 2 AS "q", CASE WHEN 0 = 0 AND NOT 7 IS NULL THEN 0 ELSE CAST(7 AS DOUBLE PRECISION) / 0 END AS "z", 7 % 4 AS "m"
--
(3.5, 0.0, 3)

## DATEADD and DATEDIFF
select dateadd(day, 3, d) as a, dateadd('month', -1, d) as b, datediff(month, d, '2024-03-01'::date) as m, datediff(day, d, '2024-03-01'::date) as f, datediff('hour', ts, '2024-01-31 14:00:00'::timestamp) as h, timestampadd(hour, 1, ts) as t from t where id = 1
--
SELECT ("d" + INTERVAL '3 DAY') AS "a", ("d" + INTERVAL '-1 MONTH') AS "b", CAST(((date_part('year', CAST('2024-03-01' AS DATE)) - date_part('year', "d")) * 12 + date_part('month', CAST('2024-03-01' AS DATE)) - date_part('month', "d")) AS BIGINT) AS "m", CAST((CAST(CAST('2024-03-01' AS DATE) AS DATE) - CAST("d" AS DATE)) AS BIGINT) AS "f", CAST(((date_part('epoch', date_trunc('hour', CAST('2024-01-31 14:00:00' AS TIMESTAMP))) - date_part('epoch', date_trunc('hour', "ts"))) / 3600) AS BIGINT) AS "h", (date_trunc('microsecond', "ts") + INTERVAL '1 HOUR') AS "t" FROM "t" WHERE "id" = 1
--
('2024-02-03', '2023-12-31', 2, 30, 1, '2024-01-31 14:45:59')

## truncated moments
select date_trunc('month', ts) as m, date_trunc(hour, ts) as h, last_day(d) as l from t where id = 1
--
SELECT date_trunc('month', "ts") AS "m", date_trunc('hour', "ts") AS "h", CAST(date_trunc('month', "d") + INTERVAL '1 MONTH' - INTERVAL '1 DAY' AS DATE) AS "l" FROM "t" WHERE "id" = 1
--
('2024-01-01 00:00:00', '2024-01-31 13:00:00', '2024-01-31')

## parts of dates
select year(d) as y, month(d) as m, dayofweek(d) as w, dayofweekiso(d) as i, dayname(d) as n, monthname(d) as o, date_part(quarter, d) as q, extract(day from d) as e from t where id = 1
--
SELECT date_part('year', "d") AS "y", date_part('month', "d") AS "m", date_part('dow', "d") AS "w", date_part('isodow', "d") AS "i", to_char("d", '%a') AS "n", to_char("d", '%b') AS "o", date_part('quarter', "d") AS "q", date_part('day', "d") AS "e" FROM "t" WHERE "id" = 1
--
(2024, 1, 3, 3, 'Wed', 'Jan', 1, 31)

## formats of dates
select to_char(ts, 'YYYY-MM-DD HH24:MI:SS') as x, to_varchar(d, 'YYYY/MM') as y, to_date('03/02/2024', 'DD/MM/YYYY') as z from t where id = 1
--
SELECT to_char("ts", '%Y-%m-%d %H:%M:%S') AS "x", to_char("d", '%Y/%m') AS "y", to_date('03/02/2024', '%d/%m/%Y') AS "z" FROM "t" WHERE "id" = 1
--
('2024-01-31 13:45:59', '2024/01', '2024-02-03')

## casts
select '7'::int as i, 7::varchar as s, try_cast('x' as int) as t, 7.125::number(10, 2) as n, 'abc'::varchar(2) as v, to_varchar(7) as c
--
SELECT CAST('7' AS INT) AS "i", CAST(7 AS VARCHAR) AS "s", TRY_CAST('x' AS INT) AS "t", CAST(7.125 AS DECIMAL(10, 2)) AS "n", left(CAST('abc' AS VARCHAR), 2) AS "v", CAST(7 AS VARCHAR) AS "c"
--
(7, '7', None, '7.13', 'ab', '7')

## LISTAGG
select listagg(s, '-') within group (order by id desc) as l, array_agg(a) within group (order by id) as g from t
--
SELECT string_agg(CAST("s" AS VARCHAR), '-' ORDER BY "id" DESC) AS "l", array_agg("a" ORDER BY "id") FILTER (WHERE "a" IS NOT NULL) AS "g" FROM "t"
--
('abc-yy-x-1', [1, 2, 4])

## QUALIFY by an alias
select id, row_number() over (order by b desc) as r from t qualify r <= 2
--
SELECT "id", ROW_NUMBER() OVER (ORDER BY "b" DESC) AS "r" FROM "t" QUALIFY "r" <= 2
--
(4, 1)
(3, 2)

## TOP
select top 2 id from t order by id
--
SELECT "id" FROM "t" ORDER BY "id" LIMIT 2
--
(1,)
(2,)

## struct fields
select st:k as k, st:v as v from t where id = 1
--
SELECT get_field("st", 'k') AS "k", get_field("st", 'v') AS "v" FROM "t" WHERE "id" = 1
--
(1, 'q')

## aggregates
select count_if(b > 5) as c, median(b) as m, approx_count_distinct(b) as d, max_by(s, b) as x, booland_agg(b >= 0) as o, percentile_cont(0.5) within group (order by b) as p from t
--
SELECT count(CASE WHEN "b" > 5 THEN 1 END) AS "c", median("b") AS "m", approx_distinct("b") AS "d", first_value("s" ORDER BY "b" DESC) FILTER (WHERE "b" IS NOT NULL) AS "x", BOOL_AND("b" >= 0) AS "o", PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY "b") AS "p" FROM "t"
--
(3, 20.0, 4, None, True, 20.0)

## a pattern matches all of the text
select regexp_like(s, 'x') as n, regexp_like(s, 'x.*') as y, s rlike '.*1' as r, regexp_replace(s, '[xy]', '_') as p, regexp_substr(s, '[a-z]+') as e from t where id = 1
--
SELECT regexp_like("s", ('^(?:' || 'x' || ')$')) AS "n", regexp_like("s", ('^(?:' || 'x.*' || ')$')) AS "y", regexp_like("s", ('^(?:' || '.*1' || ')$')) AS "r", regexp_replace("s", '[xy]', '_', 'g') AS "p", (regexp_match("s", '([a-z]+)'))[1] AS "e" FROM "t" WHERE "id" = 1
--
(False, True, True, '_-1', 'x')

## ILIKE ANY
select id from t where s ilike any ('X%', 'A%')
--
SELECT "id" FROM "t" WHERE ("s" ILIKE 'X%' OR "s" ILIKE 'A%')
--
(1,)
(3,)

## text
select concat(s, '-', id) as c, split_part(s, '-', 1) as p, charindex('y', s) as i, startswith(s, 'y') as w, contains(s, 'yy') as h, len(s) as n, substr(s, -1) as u, upper(s) as o from t where id = 2
--
SELECT "s" || '-' || "id" AS "c", SPLIT_PART("s", '-', 1) AS "p", strpos("s", 'y') AS "i", starts_with("s", 'y') AS "w", contains("s", 'yy') AS "h", length("s") AS "n", right("s", 1) AS "u", UPPER("s") AS "o" FROM "t" WHERE "id" = 2
--
('yy-2', 'yy', 1, True, True, 2, 'y', 'YY')

## NULLs are the largest
select a from t order by a desc limit 1
--
SELECT "a" FROM "t" ORDER BY "a" DESC LIMIT 1
--
(None,)

## GREATEST with NULL
select greatest(a, b) as g from t where id = 3
--
SELECT CASE WHEN "a" IS NULL OR "b" IS NULL THEN NULL ELSE greatest("a", "b") END AS "g" FROM "t" WHERE "id" = 3
--
(None,)

## ignoring NULLs
select id, lag(a) ignore nulls over (order by id) as l from t
--
SELECT "id", LAG("a") IGNORE NULLS OVER (ORDER BY "id") AS "l" FROM "t"
--
(1, None)
(2, 1)
(3, 2)
(4, 2)

## numbered parameters
select id from t where b >= :2 and id <> :1
--
SELECT "id" FROM "t" WHERE "b" >= $2 AND "id" <> $1
--
(4,)

## CONCAT_WS of NULL
select concat_ws('-', s, 'z') as x from t where id > 2 order by id
--
SELECT CASE WHEN '-' IS NULL OR "s" IS NULL OR 'z' IS NULL THEN NULL ELSE concat_ws('-', "s", 'z') END AS "x" FROM "t" WHERE "id" > 2 ORDER BY "id"
--
('abc-z',)
(None,)
