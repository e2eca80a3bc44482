DuckDB's SQL, what DataFusion is given, and DuckDB itself decides about the rows.

## casts in short and long form
select a::double as x, try_cast(s as integer) as y, cast(id as varchar) as z from t
--
SELECT CAST("a" AS DOUBLE PRECISION) AS "x", TRY_CAST("s" AS INT) AS "y", CAST("id" AS VARCHAR) AS "z" FROM "t"

## names fold and quoted names stay
select T.Id as "One Two", B from T
--
SELECT "t"."id" AS "One Two", "b" FROM "t"

## FROM first
from t select id where b > 5
--
SELECT "id" FROM "t" WHERE "b" > 5

## star without some columns
select * exclude (arr, st, ts, d) from t
--
SELECT * EXCEPT ("arr", "st", "ts", "d") FROM "t"

## star with a replacement
select id, * exclude (id, arr, st, ts, d) replace (b + 1 as b) from t
--
SELECT "id", * EXCEPT ("id", "arr", "st", "ts", "d") REPLACE ("b" + 1 AS "b") FROM "t"

## division is exact, and // is not
select 5 / 2 as x, -7 // 2 as y, a / b as q, b % 3 as r from t
--
SELECT CAST(5 AS DOUBLE PRECISION) / 2 AS "x", CAST((-7) / 2 AS BIGINT) AS "y", CAST("a" AS DOUBLE PRECISION) / "b" AS "q", "b" % 3 AS "r" FROM "t"

## powers
select 2 ** 3 as x, pow(b, 2) as y from t
--
SELECT POWER(2, 3) AS "x", POWER("b", 2) AS "y" FROM "t"

## lists count from 1
select arr[1] as first, arr[-1] as last, len([1, 2]) as n, [1, 2, 3][1:2] as p, len(s) as z, list_contains(arr, 2) as has from t
--
SELECT "arr"[1] AS "first", "arr"[-1] AS "last", length(ARRAY[1, 2]) AS "n", (ARRAY[1, 2, 3])[1:2] AS "p", length("s") AS "z", array_has("arr", 2) AS "has" FROM "t"

## unnest beside its table
select id, x from t cross join unnest(arr) as u(x)
--
SELECT "id", "x" FROM (SELECT "t".*, UNNEST("arr") AS "x" FROM "t") AS "t"

## unnest behind another join
select t.id, u.x from t join t as o on t.id = o.id cross join unnest(t.arr) as u(x)
--
SELECT "t"."id", "u"."x" FROM "t" JOIN "t" AS "o" ON "t"."id" = "o"."id" CROSS JOIN UNNEST("t"."arr") AS "u"("x")

## unnest among columns
select id, unnest(arr) as x from t
--
SELECT "id", UNNEST("arr") AS "x" FROM "t"

## struct fields
select st.k as k, st['v'] as v, struct_pack(p := id).p as p from t
--
SELECT "st"."k" AS "k", "st"['v'] AS "v", get_field(named_struct('p', "id"), 'p') AS "p" FROM "t"

## qualify
select id, s from t qualify row_number() over (order by b desc) <= 2
--
SELECT "id", "s" FROM "t" QUALIFY ROW_NUMBER() OVER (ORDER BY "b" DESC NULLS LAST) <= 2

## qualify keeps every column of a star
select * exclude (arr, st, ts, d) from t qualify rank() over (order by b) = 1
--
SELECT * EXCEPT ("arr", "st", "ts", "d") FROM "t" QUALIFY RANK() OVER (ORDER BY "b") = 1

## group by all, order by all
select b % 20 as m, count(*) as n from t group by all order by all
--
SELECT "b" % 20 AS "m", COUNT(*) AS "n" FROM "t" GROUP BY ALL ORDER BY 1, 2

## distinct on
select distinct on (b % 20) b % 20 as m, id from t order by b % 20, id
--
SELECT DISTINCT ON ("b" % 20) "b" % 20 AS "m", "id" FROM "t" ORDER BY "b" % 20, "id"

## a filter of an aggregate
select count(*) filter (where a > 1) as n, sum(b) filter (where id < 3) as s from t
--
SELECT COUNT(*) FILTER(WHERE "a" > 1) AS "n", SUM("b") FILTER(WHERE "id" < 3) AS "s" FROM "t"

## aggregates with order
select string_agg(s, '-' order by id desc) as x, list(id order by b) as y from t
--
SELECT string_agg(CAST("s" AS VARCHAR), '-' ORDER BY "id" DESC NULLS LAST) AS "x", array_agg("id" ORDER BY "b") AS "y" FROM "t"

## the row with the largest
select arg_max(s, b) as x, min_by(s, b) as y, any_value(s) as z from t
--
SELECT first_value("s" ORDER BY "b" DESC) FILTER (WHERE "s" IS NOT NULL AND "b" IS NOT NULL) AS "x", first_value("s" ORDER BY "b" ASC) FILTER (WHERE "s" IS NOT NULL AND "b" IS NOT NULL) AS "y", first_value("s") FILTER (WHERE "s" IS NOT NULL) AS "z" FROM "t"

## quantiles
select median(b) as m, quantile_cont(b, 0.25) as q from t
--
SELECT median("b") AS "m", percentile_cont(0.25) WITHIN GROUP (ORDER BY "b") AS "q" FROM "t"

## differences of dates count borders
select date_diff('day', d, date '2024-03-01') as day, date_diff('month', d, date '2024-03-01') as month, date_diff('year', d, date '2024-03-01') as year, date_diff('week', d, date '2024-03-01') as week, date_diff('quarter', d, date '2024-03-01') as quarter from t
--
SELECT CAST((CAST(CAST('2024-03-01' AS DATE) AS DATE) - CAST("d" AS DATE)) AS BIGINT) AS "day", CAST(((date_part('year', CAST('2024-03-01' AS DATE)) - date_part('year', "d")) * 12 + date_part('month', CAST('2024-03-01' AS DATE)) - date_part('month', "d")) AS BIGINT) AS "month", CAST((date_part('year', CAST('2024-03-01' AS DATE)) - date_part('year', "d")) AS BIGINT) AS "year", CAST(((CAST(CAST('2024-03-01' AS DATE) AS DATE) - CAST("d" AS DATE)) / 7) AS BIGINT) AS "week", CAST(((date_part('year', CAST('2024-03-01' AS DATE)) - date_part('year', "d")) * 4 + date_part('quarter', CAST('2024-03-01' AS DATE)) - date_part('quarter', "d")) AS BIGINT) AS "quarter" FROM "t"

## differences of moments
select date_diff('hour', ts, timestamp '2024-02-01 00:00:00') as h, datediff('minute', ts, timestamp '2024-01-31 13:46:00') as m from t
--
SELECT CAST(((date_part('epoch', date_trunc('hour', CAST('2024-02-01 00:00:00' AS TIMESTAMP))) - date_part('epoch', date_trunc('hour', "ts"))) / 3600) AS BIGINT) AS "h", CAST(((date_part('epoch', date_trunc('minute', CAST('2024-01-31 13:46:00' AS TIMESTAMP))) - date_part('epoch', date_trunc('minute', "ts"))) / 60) AS BIGINT) AS "m" FROM "t"

## intervals
select d + interval 1 month as x, d - interval '2 days' as y, ts + interval 90 minutes as z from t
--
SELECT "d" + INTERVAL '1 MONTH' AS "x", "d" - INTERVAL '2 DAY' AS "y", DATE_TRUNC('microsecond', "ts") + INTERVAL '90 MINUTE' AS "z" FROM "t"

## hours on a date
select d + interval 3 hours as x from t
--
SELECT DATE_TRUNC('microsecond', "d") + INTERVAL '3 HOUR' AS "x" FROM "t"

## intervals of a column
select ts + interval (id) day as x from t
--
SELECT "ts" + CAST(CAST(CAST(("id") AS BIGINT) AS VARCHAR) || ' DAY' AS INTERVAL) AS "x" FROM "t"

## parts of dates
select year(d) as y, month(d) as m, day(d) as d, quarter(d) as q, dayofweek(d) as w, isodow(d) as i, dayofyear(d) as j, extract(hour from ts) as h from t
--
SELECT date_part('year', "d") AS "y", date_part('month', "d") AS "m", date_part('day', "d") AS "d", date_part('quarter', "d") AS "q", date_part('dow', "d") AS "w", date_part('isodow', "d") AS "i", date_part('doy', "d") AS "j", date_part('hour', "ts") AS "h" FROM "t"

## names of days and months
select dayname(d) as x, monthname(d) as y, last_day(d) as z from t
--
SELECT to_char("d", '%A') AS "x", to_char("d", '%B') AS "y", CAST(date_trunc('month', "d") + INTERVAL '1 MONTH' - INTERVAL '1 DAY' AS DATE) AS "z" FROM "t"

## formats of dates
select strftime(ts, '%Y-%m-%d %H:%M:%S') as x, strftime(d, '%d/%m/%y') as y from t
--
SELECT to_char("ts", '%Y-%m-%d %H:%M:%S') AS "x", to_char("d", '%d/%m/%y') AS "y" FROM "t"

## parsing dates
select strptime('03/02/2024', '%d/%m/%Y') as x, make_date(2024, 2, 3) as y from t
--
SELECT CAST(to_timestamp('03/02/2024', '%d/%m/%Y') AS TIMESTAMP) AS "x", make_date(2024, 2, 3) AS "y" FROM "t"

## truncated moments
select date_trunc('hour', ts) as x, date_trunc('month', ts) as y from t
--
SELECT date_trunc('hour', "ts") AS "x", date_trunc('month', "ts") AS "y" FROM "t"

## regular expressions
select regexp_matches(s, '^[xy]') as x, regexp_replace(s, '[a-z]', '_') as y, regexp_replace(s, '[a-z]', '_', 'g') as z, regexp_extract(s, '([a-z])(-)?', 1) as w from t
--
SELECT regexp_like("s", '^[xy]') AS "x", regexp_replace("s", '[a-z]', '_') AS "y", regexp_replace("s", '[a-z]', '_', 'g') AS "z", CASE WHEN "s" IS NULL THEN NULL ELSE coalesce((regexp_match("s", '([a-z])(-)?'))[1], '') END AS "w" FROM "t"

## text
select upper(s) as u, strpos(s, 'y') as q, concat(s, null, id) as c, concat_ws('/', s, id) as w, left(s, 2) as l, split_part(s, '-', 1) as k, lpad(s, 5, '.') as g, contains(s, 'x') as h, s || '!' as e from t
--
SELECT UPPER("s") AS "u", strpos("s", 'y') AS "q", CONCAT("s", NULL, "id") AS "c", concat_ws('/', "s", "id") AS "w", LEFT("s", 2) AS "l", SPLIT_PART("s", '-', 1) AS "k", LPAD("s", 5, '.') AS "g", contains("s", 'x') AS "h", "s" || '!' AS "e" FROM "t"

## NULLs
select ifnull(a, -1) as x, nullif(b, 0) as y, coalesce(a, b) as z, if(a is null, 'none', 'some') as w, greatest(a, b) as g, a is distinct from b as i from t
--
SELECT COALESCE("a", -1) AS "x", NULLIF("b", 0) AS "y", COALESCE("a", "b") AS "z", CASE WHEN "a" IS NULL THEN 'none' ELSE 'some' END AS "w", greatest("a", "b") AS "g", "a" IS DISTINCT FROM "b" AS "i" FROM "t"

## order of NULLs
select a from t order by a desc
--
SELECT "a" FROM "t" ORDER BY "a" DESC NULLS LAST

## order of NULLs, said
select a from t order by a asc nulls first
--
SELECT "a" FROM "t" ORDER BY "a" ASC NULLS FIRST

## sets
select id from t where b > 5 union all by name select id from t where b = 0
--
SELECT "id" FROM "t" WHERE "b" > 5 UNION ALL BY NAME SELECT "id" FROM "t" WHERE "b" = 0

## semi and anti joins
select id from t semi join (select 1 as id union all select 4) u using (id)
--
SELECT "id" FROM "t" LEFT SEMI JOIN (SELECT 1 AS "id" UNION ALL SELECT 4 AS "4") AS "u" USING ("id")

## windows
select id, sum(b) over (order by id rows between 1 preceding and current row) as s, lag(b, 1, 0) over (order by id) as l, ntile(2) over (order by id) as n from t
--
SELECT "id", SUM("b") OVER (ORDER BY "id" rows BETWEEN 1 preceding AND CURRENT ROW) AS "s", LAG("b", 1, 0) OVER (ORDER BY "id") AS "l", NTILE(2) OVER (ORDER BY "id") AS "n" FROM "t"

## a common table
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) select n from r
--
WITH RECURSIVE "r" AS (SELECT 1 AS "n" UNION ALL SELECT "n" + 1 AS "n + 1" FROM "r" WHERE "n" < 3) SELECT "n" FROM "r"

## values
select x, y from (values (1, 'a'), (2, 'b')) as v(x, y)
--
SELECT "x", "y" FROM (VALUES (1, 'a'), (2, 'b')) AS "v"("x", "y")

## comments go
select id /* the key */ from t -- all of it
--
SELECT "id" FROM "t"

## case and between
select case when b between 5 and 35 then 'mid' else 'end' end as c from t where s not in ('yy')
--
SELECT CASE WHEN "b" BETWEEN 5 AND 35 THEN 'mid' ELSE 'end' END AS "c" FROM "t" WHERE NOT "s" IN ('yy')

## several rows in one
select count(distinct b % 20) as n, bool_and(b >= 0) as p, stddev(b) as s, var_pop(b) as v, corr(id, b) as c from t
--
SELECT COUNT(DISTINCT "b" % 20) AS "n", BOOL_AND("b" >= 0) AS "p", STDDEV("b") AS "s", VAR_POP("b") AS "v", CORR("id", "b") AS "c" FROM "t"

## operands keep their brackets
select (b + 4) // 3 as d, xor(b, 3) as x, date_diff('day', d - 1, d + 1) as f, pow(b + 1, 2) as p, mod(b + 4, 3) as m from t
--
SELECT CAST(("b" + 4) / 3 AS BIGINT) AS "d", (("b" | 3) - ("b" & 3)) AS "x", CAST((CAST(("d" + 1) AS DATE) - CAST(("d" - 1) AS DATE)) AS BIGINT) AS "f", POWER("b" + 1, 2) AS "p", ("b" + 4) % 3 AS "m" FROM "t"

## a backslash in LIKE is one, and ESCAPE escapes
select 'a_b' like 'a\_b' as a, 'a\xb' like 'a\_b' as b, 'a_b' like 'a!_b' escape '!' as c, 'axb' like 'a!_b' escape '!' as d, 'a\b' like 'a\b' escape '!' as e
--
SELECT 'a_b' LIKE 'a\\_b' AS "a", 'a\xb' LIKE 'a\\_b' AS "b", 'a_b' LIKE 'a\_b' ESCAPE '\' AS "c", 'axb' LIKE 'a\_b' ESCAPE '\' AS "d", 'a\b' LIKE 'a\\b' ESCAPE '\' AS "e"

## totals, and which they are
select a, sum(b) as s, grouping(a) as g from t where id < 3 group by rollup (a) order by a, g
--
SELECT "a", SUM("b") AS "s", grouping("a") AS "g" FROM "t" WHERE "id" < 3 GROUP BY ROLLUP ("a") ORDER BY "a", "g"

## bytes in a BLOB
select '\xFF\x00'::blob as a, 'ab\x0A'::blob as b, 'ab'::blob as c
--
SELECT X'FF00' AS "a", X'61620A' AS "b", CAST('ab' AS BYTEA) AS "c"
