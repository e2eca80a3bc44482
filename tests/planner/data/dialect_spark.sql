SQL of the dialect spark, what DataFusion is given, and the rows; parameters are 1, 40, 1, 3.

## backticks quote
select `id` as `One Two`, B from `t` where `b` = 10
--
SELECT "id" AS "One Two", "b" FROM "t" WHERE "b" = 10
--
(1, 10)

## hints go
select /*+ BROADCAST(t) */ count(*) as n from t
--
SELECT COUNT(*) AS "n" FROM "t"
--
(4,)

## IF, NVL and their kind
select if(a > 1, 'x', 'y') as i, nvl(a, 0) as n, nvl2(a, 1, 2) as v, ifnull(a, 9) as f, coalesce(a, b) as c from t
--
SELECT CASE WHEN "a" > 1 THEN 'x' ELSE 'y' END AS "i", COALESCE("a", 0) AS "n", CASE WHEN NOT "a" IS NULL THEN 1 ELSE 2 END AS "v", COALESCE("a", 9) AS "f", COALESCE("a", "b") AS "c" FROM "t"
--
('y', 1, 1, 1, 1)
('x', 2, 1, 2, 2)
('y', 0, 2, 9, 30)
('x', 4, 1, 4, 4)

## division
select 7 / 2 as q, 7 div 2 as d, a / b as r, 7 % 4 as m from t where id = 2
--
SELECT CAST(7 AS DOUBLE PRECISION) / NULLIF(2, 0) AS "q", CAST(7 / 2 AS BIGINT) AS "d", CAST("a" AS DOUBLE PRECISION) / NULLIF("b", 0) AS "r", 7 % 4 AS "m" FROM "t" WHERE "id" = 2
--
(3.5, 3, None, 3)

## null-safe equality
select a <=> null as x from t
--
SELECT "a" IS NOT DISTINCT FROM NULL AS "x" FROM "t"
--
(False,)
(False,)
(True,)
(False,)

## casts
select int('7') as i, cast('7' as bigint) as b, try_cast('x' as int) as t, string(7) as s, double(1) as d, date('2024-02-03') as e
--
SELECT CAST('7' AS INT) AS "i", CAST('7' AS BIGINT) AS "b", TRY_CAST('x' AS INT) AS "t", CAST(7 AS VARCHAR) AS "s", CAST(1 AS DOUBLE PRECISION) AS "d", CAST('2024-02-03' AS DATE) AS "e"
--
(7, 7, None, '7', 1.0, '2024-02-03')

## date arithmetic
select date_add(d, 3) as a, date_sub(d, 3) as b, add_months(d, 1) as c, d + interval 2 days as e, datediff(date '2024-03-01', d) as f from t where id < 4
--
SELECT (CAST("d" AS DATE) + INTERVAL '3 DAY') AS "a", (CAST("d" AS DATE) + CAST(CAST(CAST(3 * -1 AS BIGINT) AS VARCHAR) || ' DAY' AS INTERVAL)) AS "b", (CAST("d" AS DATE) + INTERVAL '1 MONTH') AS "c", "d" + INTERVAL '2 DAY' AS "e", CAST((CAST(CAST(CAST('2024-03-01' AS DATE) AS DATE) AS DATE) - CAST(CAST("d" AS DATE) AS DATE)) AS BIGINT) AS "f" FROM "t" WHERE "id" < 4
--
('2024-02-03', '2024-01-28', '2024-02-29', '2024-02-02', 30)
('2024-03-03', '2024-02-26', '2024-03-29', '2024-03-02', 1)
('2025-12-28', '2025-12-22', '2026-01-25', '2025-12-27', -664)

## days from a column
select date_add(d, id) as x from t where id < 4
--
SELECT (CAST("d" AS DATE) + CAST(CAST(CAST("id" AS BIGINT) AS VARCHAR) || ' DAY' AS INTERVAL)) AS "x" FROM "t" WHERE "id" < 4
--
('2024-02-01',)
('2024-03-02',)
('2025-12-28',)

## whole units between
select timestampdiff(MONTH, timestamp '2024-01-31 00:00:00', timestamp '2024-02-29 00:00:00') as m, timestampdiff(HOUR, timestamp '2024-01-31 00:30:00', timestamp '2024-01-31 02:00:00') as h, timestampdiff(DAY, timestamp '2024-03-02 00:00:00', timestamp '2024-03-01 06:00:00') as d, timestampdiff(YEAR, timestamp '2020-02-29 00:00:00', timestamp '2024-02-28 00:00:00') as y
--
SELECT CAST(trunc((CASE WHEN CAST('2024-02-29 00:00:00' AS TIMESTAMPTZ) >= CAST('2024-01-31 00:00:00' AS TIMESTAMPTZ) THEN (((date_part('year', CAST('2024-02-29 00:00:00' AS TIMESTAMPTZ)) - date_part('year', CAST('2024-01-31 00:00:00' AS TIMESTAMPTZ))) * 12 + date_part('month', CAST('2024-02-29 00:00:00' AS TIMESTAMPTZ)) - date_part('month', CAST('2024-01-31 00:00:00' AS TIMESTAMPTZ))) - CASE WHEN (date_part('epoch', CAST('2024-02-29 00:00:00' AS TIMESTAMPTZ)) - date_part('epoch', date_trunc('month', CAST('2024-02-29 00:00:00' AS TIMESTAMPTZ)))) < (date_part('epoch', CAST('2024-01-31 00:00:00' AS TIMESTAMPTZ)) - date_part('epoch', date_trunc('month', CAST('2024-01-31 00:00:00' AS TIMESTAMPTZ)))) THEN 1 ELSE 0 END) ELSE -(((date_part('year', CAST('2024-01-31 00:00:00' AS TIMESTAMPTZ)) - date_part('year', CAST('2024-02-29 00:00:00' AS TIMESTAMPTZ))) * 12 + date_part('month', CAST('2024-01-31 00:00:00' AS TIMESTAMPTZ)) - date_part('month', CAST('2024-02-29 00:00:00' AS TIMESTAMPTZ))) - CASE WHEN (date_part('epoch', CAST('2024-01-31 00:00:00' AS TIMESTAMPTZ)) - date_part('epoch', date_trunc('month', CAST('2024-01-31 00:00:00' AS TIMESTAMPTZ)))) < (date_part('epoch', CAST('2024-02-29 00:00:00' AS TIMESTAMPTZ)) - date_part('epoch', date_trunc('month', CAST('2024-02-29 00:00:00' AS TIMESTAMPTZ)))) THEN 1 ELSE 0 END) END) / 1) AS BIGINT) AS "m", CAST(trunc((date_part('epoch', CAST('2024-01-31 02:00:00' AS TIMESTAMPTZ)) - date_part('epoch', CAST('2024-01-31 00:30:00' AS TIMESTAMPTZ))) / 3600) AS BIGINT) AS "h", CAST(trunc((date_part('epoch', CAST('2024-03-01 06:00:00' AS TIMESTAMPTZ)) - date_part('epoch', CAST('2024-03-02 00:00:00' AS TIMESTAMPTZ))) / 86400) AS BIGINT) AS "d", CAST(trunc((CASE WHEN CAST('2024-02-28 00:00:00' AS TIMESTAMPTZ) >= CAST('2020-02-29 00:00:00' AS TIMESTAMPTZ) THEN (((date_part('year', CAST('2024-02-28 00:00:00' AS TIMESTAMPTZ)) - date_part('year', CAST('2020-02-29 00:00:00' AS TIMESTAMPTZ))) * 12 + date_part('month', CAST('2024-02-28 00:00:00' AS TIMESTAMPTZ)) - date_part('month', CAST('2020-02-29 00:00:00' AS TIMESTAMPTZ))) - CASE WHEN (date_part('epoch', CAST('2024-02-28 00:00:00' AS TIMESTAMPTZ)) - date_part('epoch', date_trunc('month', CAST('2024-02-28 00:00:00' AS TIMESTAMPTZ)))) < (date_part('epoch', CAST('2020-02-29 00:00:00' AS TIMESTAMPTZ)) - date_part('epoch', date_trunc('month', CAST('2020-02-29 00:00:00' AS TIMESTAMPTZ)))) THEN 1 ELSE 0 END) ELSE -(((date_part('year', CAST('2020-02-29 00:00:00' AS TIMESTAMPTZ)) - date_part('year', CAST('2024-02-28 00:00:00' AS TIMESTAMPTZ))) * 12 + date_part('month', CAST('2020-02-29 00:00:00' AS TIMESTAMPTZ)) - date_part('month', CAST('2024-02-28 00:00:00' AS TIMESTAMPTZ))) - CASE WHEN (date_part('epoch', CAST('2020-02-29 00:00:00' AS TIMESTAMPTZ)) - date_part('epoch', date_trunc('month', CAST('2020-02-29 00:00:00' AS TIMESTAMPTZ)))) < (date_part('epoch', CAST('2024-02-28 00:00:00' AS TIMESTAMPTZ)) - date_part('epoch', date_trunc('month', CAST('2024-02-28 00:00:00' AS TIMESTAMPTZ)))) THEN 1 ELSE 0 END) END) / 12) AS BIGINT) AS "y"
--
(0, 1, 0, 3)

## truncated dates
select trunc(d, 'MM') as m, trunc(d, 'YEAR') as y, date_trunc('HOUR', ts) as h from t where id = 1
--
SELECT CAST(date_trunc('month', "d") AS DATE) AS "m", CAST(date_trunc('year', "d") AS DATE) AS "y", date_trunc('hour', "ts") AS "h" FROM "t" WHERE "id" = 1
--
('2024-01-01', '2024-01-01', '2024-01-31 13:00:00')

## parts of dates
select year(d) as y, month(d) as m, dayofmonth(d) as d, dayofweek(d) as w, weekofyear(d) as k, quarter(d) as q, hour(ts) as h, minute(ts) as n, last_day(d) as l, extract(YEAR from d) as e from t where id = 1
--
SELECT date_part('year', CAST("d" AS DATE)) AS "y", date_part('month', CAST("d" AS DATE)) AS "m", date_part('day', CAST("d" AS DATE)) AS "d", (date_part('dow', CAST("d" AS DATE)) + 1) AS "w", date_part('week', CAST("d" AS DATE)) AS "k", date_part('quarter', "d") AS "q", date_part('hour', "ts") AS "h", date_part('minute', "ts") AS "n", CAST(date_trunc('month', "d") + INTERVAL '1 MONTH' - INTERVAL '1 DAY' AS DATE) AS "l", date_part('year', "d") AS "e" FROM "t" WHERE "id" = 1
--
(2024, 1, 31, 4, 5, 1, 13, 45, '2024-01-31', 2024)

## formats of dates
select date_format(ts, 'yyyy-MM-dd HH:mm:ss') as x, date_format(d, 'yyyyMM') as y, to_date('03/02/2024', 'dd/MM/yyyy') as z from t where id = 1
--
SELECT to_char(CAST("ts" AS TIMESTAMP), '%Y-%m-%d %H:%M:%S') AS "x", to_char(CAST("d" AS TIMESTAMP), '%Y%m') AS "y", to_date('03/02/2024', '%d/%m/%Y') AS "z" FROM "t" WHERE "id" = 1
--
('2024-01-31 13:45:59', '202401', '2024-02-03')

## lists and structs
select arr[0] as f, element_at(arr, 1) as e, size(arr) as n, array_contains(arr, 2) as h, st.k as k, named_struct('p', id).p as p, explode(array(id, b)) as x from t where id = 1
--
SELECT "arr"[1] AS "f", "arr"[1] AS "e", cardinality("arr") AS "n", array_has("arr", 2) AS "h", "st"."k" AS "k", get_field(named_struct('p', "id"), 'p') AS "p", UNNEST(ARRAY["id", "b"]) AS "x" FROM "t" WHERE "id" = 1
--
(1, 1, 2, True, 1, 1, 1)
(1, 1, 2, True, 1, 1, 10)

## LATERAL VIEW
select id, y from t lateral view explode(arr) x as y
--
SELECT "id", "y" FROM (SELECT "t".*, UNNEST("arr") AS "y" FROM "t") AS "t"
--
(1, 1)
(1, 2)
(2, 3)

## an outer LATERAL VIEW
select id, y from t lateral view outer explode(arr) x as y where id < 3
--
SELECT "id", "y" FROM "t" LEFT JOIN UNNEST("arr") AS "x"("y") ON TRUE WHERE "id" < 3
--
(1, 1)
(1, 2)
(2, 3)

## LATERAL VIEW with qualified names
select t.id, x.y * 10 as z from t lateral view explode(t.arr) x as y where x.y > 1
--
SELECT "t"."id", "t"."y" * 10 AS "z" FROM (SELECT "t".*, UNNEST("t"."arr") AS "y" FROM "t") AS "t" WHERE "t"."y" > 1
--
(1, 20)
(2, 30)

## aggregates
select collect_list(a) as l, count_if(b > 5) as c, approx_count_distinct(b) as d, percentile(b, 0.5) as p, max_by(s, b) as m, bool_and(b >= 0) as o from t
--
SELECT array_agg("a") FILTER (WHERE "a" IS NOT NULL) AS "l", count(CASE WHEN "b" > 5 THEN 1 END) AS "c", approx_distinct("b") AS "d", percentile_cont(0.5) WITHIN GROUP (ORDER BY "b") AS "p", first_value("s" ORDER BY "b" DESC) FILTER (WHERE "b" IS NOT NULL) AS "m", BOOL_AND("b" >= 0) AS "o" FROM "t"
--
([1, 2, 4], 3, 4, 20.0, None, True)

## collect_set
select array_sort(collect_set(b % 20)) as x from t
--
SELECT array_sort(array_agg(DISTINCT "b" % 20) FILTER (WHERE ("b" % 20) IS NOT NULL), 'ASC', 'NULLS LAST') AS "x" FROM "t"
--
([0, 10],)

## first, without NULLs
select first(a, true) as x, any_value(s) as y from t where id >= 3
--
SELECT first_value("a") FILTER (WHERE "a" IS NOT NULL) AS "x", first_value("s") FILTER (WHERE "s" IS NOT NULL) AS "y" FROM "t" WHERE "id" >= 3
--
(4, 'abc')

## windows
select id, lag(a) over (order by id) as l, row_number() over (partition by b % 20 order by id) as r from t
--
SELECT "id", LAG("a") OVER (ORDER BY "id" NULLS FIRST) AS "l", ROW_NUMBER() OVER (PARTITION BY "b" % 20 ORDER BY "id" NULLS FIRST) AS "r" FROM "t"
--
(2, 1, 1)
(4, None, 2)
(1, None, 1)
(3, 2, 2)

## QUALIFY
select id from t qualify row_number() over (order by b desc) = 1
--
SELECT "id" FROM "t" QUALIFY ROW_NUMBER() OVER (ORDER BY "b" DESC NULLS LAST) = 1
--
(4,)

## NULLs come first
select a from t order by a limit 1
--
SELECT "a" FROM "t" ORDER BY "a" NULLS FIRST LIMIT 1
--
(None,)

## text
select concat(s, '-', id) as c, concat_ws('/', s, id) as w, substring(s, 2) as u, substring(s, -2) as r, instr(s, 'y') as i, locate('y', s) as o, upper(s) as p, lpad(s, 4, '.') as l, length(s) as n, initcap(s) as k from t where id = 2
--
SELECT "s" || '-' || "id" AS "c", concat_ws('/', "s", "id") AS "w", substr("s", 2) AS "u", right("s", 2) AS "r", strpos("s", 'y') AS "i", strpos("s", 'y') AS "o", UPPER("s") AS "p", LPAD("s", 4, '.') AS "l", length("s") AS "n", initcap("s") AS "k" FROM "t" WHERE "id" = 2
--
('yy-2', 'yy/2', 'y', 'yy', 1, 1, 'YY', '..yy', 2, 'Yy')

## NULL in text
select concat(s, 'x') as c from t where id = 4
--
SELECT "s" || 'x' AS "c" FROM "t" WHERE "id" = 4
--
(None,)

## regular expressions
select s rlike '^x' as r, regexp_replace(s, '[xy]', '_') as p, regexp_extract(s, '([a-z])-', 1) as e, split('a,b', ',')[1] as f from t where id < 3
--
SELECT regexp_like("s", '^x') AS "r", regexp_replace("s", '[xy]', '_', 'g') AS "p", CASE WHEN "s" IS NULL THEN NULL ELSE coalesce((regexp_match("s", '([a-z])-'))[1], '') END AS "e", string_to_array('a,b', ',')[2] AS "f" FROM "t" WHERE "id" < 3
--
(True, '_-1', 'x', 'b')
(False, '__', '', 'b')

## semi and anti joins
select id from t left anti join (select 1 as id union all select 4) u on t.id = u.id
--
SELECT "id" FROM "t" WHERE NOT EXISTS(SELECT 1 FROM (SELECT 1 AS "id" UNION ALL SELECT 4 AS "4") AS "u" WHERE "t"."id" = "u"."id")
--
(2,)
(3,)

## group by, rollup
select b % 20 as m, count(*) as n from t group by rollup(b % 20) having count(*) > 0 order by 1
--
SELECT "b" % 20 AS "m", COUNT(*) AS "n" FROM "t" GROUP BY ROLLUP ("b" % 20) HAVING COUNT(*) > 0 ORDER BY 1 NULLS FIRST
--
(None, 4)
(0, 2)
(10, 2)

## greatest passes over NULLs
select greatest(a, b) as g, least(a, b) as l from t where id = 3
--
SELECT greatest("a", "b") AS "g", least("a", "b") AS "l" FROM "t" WHERE "id" = 3
--
(30, 30)

## named parameters
select id from t where b >= :low and b < :high and id <> :low
--
SELECT "id" FROM "t" WHERE "b" >= $1 AND "b" < $2 AND "id" <> $1
--
(3,)

## totals
select a, sum(b) as y, grouping(a) as g from t where id < 3 group by a with cube order by a, g
--
SELECT "a", SUM("b") AS "y", grouping("a") AS "g" FROM "t" WHERE "id" < 3 GROUP BY CUBE ("a") ORDER BY "a" NULLS FIRST, "g" NULLS FIRST
--
(None, 10, 1)
(1, 10, 0)
(2, 0, 0)

## other zones
select from_utc_timestamp(ts, 'Europe/Berlin') as f, to_utc_timestamp(ts, 'Europe/Berlin') as t from t where id = 1
--
SELECT to_local_time(CAST("ts" AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin') AS "f", to_local_time(CAST("ts" AS TIMESTAMP) AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'UTC') AS "t" FROM "t" WHERE "id" = 1
--
('2024-01-31 14:45:59', '2024-01-31 12:45:59')

## what is NULL, and days of the week
select isnull(a) as i, isnotnull(a) as n, weekday(d) as w from t where id = 3
--
SELECT (("a") IS NULL) AS "i", (NOT (("a") IS NULL)) AS "n", (date_part('isodow', CAST("d" AS DATE)) - 1) AS "w" FROM "t" WHERE "id" = 3
--
(True, False, 3)
