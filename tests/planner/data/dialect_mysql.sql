SQL of the dialect mysql, what DataFusion is given, and the rows; parameters are 1, 40, 1, 3.

## backticks quote names, double quotes text
select `id`, "some text" as `t x`, B from `t` where `b` = 10
--
SELECT "id", 'some text' AS "t x", "b" FROM "t" WHERE "b" = 10
--
(1, 'some text', 10)

## LIMIT with an offset first
select id from t order by id limit 1, 2
--
SELECT "id" FROM "t" ORDER BY "id" NULLS FIRST LIMIT 2 OFFSET 1
--
(2,)
(3,)

## IF and IFNULL
select if(a > 1, 'x', 'y') as i, ifnull(a, 0) as n, isnull(a) as u from t
--
SELECT CASE WHEN "a" > 1 THEN 'x' ELSE 'y' END AS "i", COALESCE("a", 0) AS "n", ("a" IS NULL) AS "u" FROM "t"
--
('y', 1, False)
('x', 2, False)
('y', 0, True)
('x', 4, False)

## division
select 7 / 2 as q, 7 div 2 as d, 7 mod 4 as m, 7 / 0 as z, 7 div 0 as y
--
SELECT CAST(7 AS DOUBLE PRECISION) / NULLIF(2, 0) AS "q", CAST(7 / nullif(2, 0) AS BIGINT) AS "d", 7 % 4 AS "m", CAST(7 AS DOUBLE PRECISION) / NULLIF(0, 0) AS "z", CAST(7 / nullif(0, 0) AS BIGINT) AS "y"
--
(3.5, 3, 3, None, None)

## two bars are OR, two ampersands AND
select 1 = 2 || 1 = 1 as o, 1 = 2 && 1 = 1 as a, 1 = 2 xor 1 = 1 as x
--
SELECT 1 = 2 OR 1 = 1 AS "o", 1 = 2 AND 1 = 1 AS "a", (1 = 2 AND (NOT 1 = 1)) OR ((NOT 1 = 2) AND 1 = 1) AS "x"
--
(True, False, True)

## null-safe equality
select id from t where a <=> null
--
SELECT "id" FROM "t" WHERE "a" IS NOT DISTINCT FROM NULL
--
(3,)

## CONCAT with NULL
select concat(s, '-', id) as c, concat_ws('/', s, id) as w from t where id in (2, 4)
--
SELECT "s" || '-' || "id" AS "c", concat_ws('/', "s", "id") AS "w" FROM "t" WHERE "id" IN (2, 4)
--
('yy-2', 'yy/2')
(None, '4')

## GROUP_CONCAT
select group_concat(s order by id desc separator ";") as g, group_concat(id, s) as d from t where id < 3
--
SELECT string_agg(CAST("s" AS VARCHAR), ';' ORDER BY "id" DESC NULLS LAST) AS "g", string_agg(CAST("id" || "s" AS VARCHAR), ',') AS "d" FROM "t" WHERE "id" < 3
--
('yy;x-1', '2yy,1x-1')

## adding to dates
select date_add(d, interval 1 month) as a, date_sub(d, interval 2 day) as b, d + interval 1 week as c from t where id = 1
--
SELECT ("d" + INTERVAL '1 MONTH') AS "a", ("d" - INTERVAL '2 DAY') AS "b", "d" + INTERVAL '1 WEEK' AS "c" FROM "t" WHERE "id" = 1
--
('2024-02-29', '2024-01-29', '2024-02-07')

## hours on a date
select date_add(d, interval 3 hour) as x from t where id = 1
--
SELECT (date_trunc('microsecond', "d") + INTERVAL '3 HOUR') AS "x" FROM "t" WHERE "id" = 1
--
('2024-01-31 03:00:00',)

## differences
select datediff('2024-03-01', d) as f, timestampdiff(month, d, '2024-03-30') as m, timestampdiff(month, d, '2024-03-31') as n, timestampdiff(hour, ts, '2024-02-01 13:45:58') as h from t where id = 1
--
SELECT CAST((CAST(CAST('2024-03-01' AS TIMESTAMP) AS DATE) - CAST("d" AS DATE)) AS BIGINT) AS "f", CAST(trunc((CASE WHEN CAST('2024-03-30' AS TIMESTAMP) >= "d" THEN (((date_part('year', CAST('2024-03-30' AS TIMESTAMP)) - date_part('year', "d")) * 12 + date_part('month', CAST('2024-03-30' AS TIMESTAMP)) - date_part('month', "d")) - CASE WHEN (date_part('epoch', CAST('2024-03-30' AS TIMESTAMP)) - date_part('epoch', date_trunc('month', CAST('2024-03-30' AS TIMESTAMP)))) < (date_part('epoch', "d") - date_part('epoch', date_trunc('month', "d"))) THEN 1 ELSE 0 END) ELSE -(((date_part('year', "d") - date_part('year', CAST('2024-03-30' AS TIMESTAMP))) * 12 + date_part('month', "d") - date_part('month', CAST('2024-03-30' AS TIMESTAMP))) - CASE WHEN (date_part('epoch', "d") - date_part('epoch', date_trunc('month', "d"))) < (date_part('epoch', CAST('2024-03-30' AS TIMESTAMP)) - date_part('epoch', date_trunc('month', CAST('2024-03-30' AS TIMESTAMP)))) THEN 1 ELSE 0 END) END) / 1) AS BIGINT) AS "m", CAST(trunc((CASE WHEN CAST('2024-03-31' AS TIMESTAMP) >= "d" THEN (((date_part('year', CAST('2024-03-31' AS TIMESTAMP)) - date_part('year', "d")) * 12 + date_part('month', CAST('2024-03-31' AS TIMESTAMP)) - date_part('month', "d")) - CASE WHEN (date_part('epoch', CAST('2024-03-31' AS TIMESTAMP)) - date_part('epoch', date_trunc('month', CAST('2024-03-31' AS TIMESTAMP)))) < (date_part('epoch', "d") - date_part('epoch', date_trunc('month', "d"))) THEN 1 ELSE 0 END) ELSE -(((date_part('year', "d") - date_part('year', CAST('2024-03-31' AS TIMESTAMP))) * 12 + date_part('month', "d") - date_part('month', CAST('2024-03-31' AS TIMESTAMP))) - CASE WHEN (date_part('epoch', "d") - date_part('epoch', date_trunc('month', "d"))) < (date_part('epoch', CAST('2024-03-31' AS TIMESTAMP)) - date_part('epoch', date_trunc('month', CAST('2024-03-31' AS TIMESTAMP)))) THEN 1 ELSE 0 END) END) / 1) AS BIGINT) AS "n", CAST(trunc((date_part('epoch', CAST('2024-02-01 13:45:58' AS TIMESTAMP)) - date_part('epoch', "ts")) / 3600) AS BIGINT) AS "h" FROM "t" WHERE "id" = 1
--
(30, 1, 2, 23)

## formats of dates
select date_format(ts, '%Y-%m-%d %H:%i:%s') as x, date_format(d, '%b %d %Y') as y, str_to_date('03,02,2024', '%d,%m,%Y') as z from t where id = 1
--
SELECT to_char(CAST("ts" AS TIMESTAMP), '%Y-%m-%d %H:%M:%S') AS "x", to_char(CAST("d" AS TIMESTAMP), '%b %d %Y') AS "y", to_date('03,02,2024', '%d,%m,%Y') AS "z" FROM "t" WHERE "id" = 1
--
('2024-01-31 13:45:59', 'Jan 31 2024', '2024-02-03')

## parts of dates
select year(d) as y, month(d) as m, day(d) as d, dayofweek(d) as w, quarter(d) as q, dayofyear(d) as j, hour(ts) as h, date(ts) as e, dayname(d) as n, monthname(d) as o, last_day(d) as l from t where id = 1
--
SELECT date_part('year', CAST("d" AS DATE)) AS "y", date_part('month', CAST("d" AS DATE)) AS "m", date_part('day', CAST("d" AS DATE)) AS "d", (date_part('dow', CAST("d" AS DATE)) + 1) AS "w", date_part('quarter', "d") AS "q", date_part('doy', CAST("d" AS DATE)) AS "j", date_part('hour', "ts") AS "h", CAST("ts" AS DATE) AS "e", to_char("d", '%A') AS "n", to_char(CAST("d" AS DATE), '%B') AS "o", CAST(date_trunc('month', "d") + INTERVAL '1 MONTH' - INTERVAL '1 DAY' AS DATE) AS "l" FROM "t" WHERE "id" = 1
--
(2024, 1, 31, 4, 1, 31, 13, '2024-01-31', 'Wednesday', 'January', '2024-01-31')

## casts
select cast('7' as signed) as s, cast(7 as char) as c, cast('abc' as char(2)) as t, cast('2024-01-02' as datetime) as e, convert('8', signed) as v
--
SELECT CAST('7' AS BIGINT) AS "s", CAST(7 AS VARCHAR) AS "c", left(CAST('abc' AS VARCHAR), 2) AS "t", CAST('2024-01-02' AS TIMESTAMP) AS "e", CAST('8' AS BIGINT) AS "v"
--
(7, '7', 'ab', '2024-01-02 00:00:00', 8)

## text
select length('grün') as b, char_length('grün') as c, substring(s, 2) as u, substring_index('a.b.c', '.', 2) as i, locate('y', s) as l, ucase(s) as p, lpad(s, 4, '.') as d, replace(s, 'y', 'z') as r, left(s, 1) as f from t where id = 2
--
SELECT octet_length('grün') AS "b", length('grün') AS "c", substr("s", 2) AS "u", SUBSTRING_INDEX('a.b.c', '.', 2) AS "i", strpos("s", 'y') AS "l", UPPER("s") AS "p", LPAD("s", 4, '.') AS "d", REPLACE("s", 'y', 'z') AS "r", LEFT("s", 1) AS "f" FROM "t" WHERE "id" = 2
--
(5, 4, 'y', 'a.b', 1, 'YY', '..yy', 'zz', 'y')

## escapes in text
select 'it''s' as a, 'a\tb' as b, 'c\\d' as c
--
SELECT 'it''s' AS "a", 'a	b' AS "b", 'c\d' AS "c"
--
("it's", 'a\tb', 'c\\d')

## regular expressions
select s regexp '^x' as r, s rlike 'y$' as l, s not regexp 'x' as n, regexp_replace(s, '[xy]', '_') as p from t where id < 3
--
SELECT regexp_like("s", '^x') AS "r", regexp_like("s", 'y$') AS "l", NOT regexp_like("s", 'x') AS "n", regexp_replace("s", '[xy]', '_', 'g') AS "p" FROM "t" WHERE "id" < 3
--
(True, False, False, '_-1')
(False, True, True, '__')

## NULLs come first
select a from t order by a limit 1
--
SELECT "a" FROM "t" ORDER BY "a" NULLS FIRST LIMIT 1
--
(None,)

## NULLs come last, downwards
select a from t order by a desc limit 1
--
SELECT "a" FROM "t" ORDER BY "a" DESC NULLS LAST LIMIT 1
--
(4,)

## GREATEST with NULL
select greatest(a, b) as g, greatest(1, 2) as h from t where id = 3
--
SELECT CASE WHEN "a" IS NULL OR "b" IS NULL THEN NULL ELSE greatest("a", "b") END AS "g", CASE WHEN 1 IS NULL OR 2 IS NULL THEN NULL ELSE greatest(1, 2) END AS "h" FROM "t" WHERE "id" = 3
--
(None, 2)

## deviations of all rows
select stddev(b) as s, variance(b) as v, stddev_samp(b) as p from t
--
SELECT STDDEV_POP("b") AS "s", VAR_POP("b") AS "v", STDDEV_SAMP("b") AS "p" FROM "t"
--
(15.811388301, 250.0, 18.257418584)

## comments after a hash
select id # the key
 from t where id = 1
--
SELECT "id" FROM "t" WHERE "id" = 1
--
(1,)

## a window
select id, rank() over (order by b desc) as r from t
--
SELECT "id", RANK() OVER (ORDER BY "b" DESC NULLS LAST) AS "r" FROM "t"
--
(4, 1)
(3, 2)
(1, 3)
(2, 4)

## parameters keep their order
select id from t where b > ? and id <> ? limit ?, ?
--
SELECT "id" FROM "t" WHERE "b" > $1 AND "id" <> $2 LIMIT $4 OFFSET $3
--
(3,)
(4,)

## a backslash in LIKE escapes
select 'a_b' like 'a\_b' as a, 'axb' like 'a\_b' as b, 'a_b' like 'a|_b' escape '|' as c
--
SELECT 'a_b' LIKE 'a\_b' AS "a", 'axb' LIKE 'a\_b' AS "b", 'a_b' LIKE 'a\_b' ESCAPE '\' AS "c"
--
(True, False, True)

## totals
select a as x, s, sum(b) as y from t where id < 3 group by 1, s with rollup order by 1, 2
--
SELECT "a" AS "x", "s", SUM("b") AS "y" FROM "t" WHERE "id" < 3 GROUP BY ROLLUP ("a", "s") ORDER BY 1 NULLS FIRST, 2 NULLS FIRST
--
(None, None, 10)
(1, None, 10)
(1, 'x-1', 10)
(2, None, 0)
(2, 'yy', 0)

## days of the year and of the week
select makedate(2024, 60) as m, weekday(d) as w, weekday('2024-01-01') as v, adddate(d, 3) as a, subdate(d, interval 1 week) as b from t where id = 1
--
SELECT (make_date(2024, 1, 1) + CAST(CAST(CAST((60) - 1 AS BIGINT) AS VARCHAR) || ' DAY' AS INTERVAL)) AS "m", (date_part('isodow', CAST("d" AS DATE)) - 1) AS "w", (date_part('isodow', CAST('2024-01-01' AS DATE)) - 1) AS "v", ("d" + INTERVAL '3 DAY') AS "a", ("d" - INTERVAL '1 WEEK') AS "b" FROM "t" WHERE "id" = 1
--
('2024-02-29', 2, 0, '2024-02-03', '2024-01-24')

## a month as Tableau truncates to it
select adddate(date_format(`t`.`ts`, '%Y-%m-01 00:00:00'), interval 0 second) as m from t where id = 1
--
SELECT (date_trunc('microsecond', CAST(TO_TIMESTAMP(to_char(CAST("t"."ts" AS TIMESTAMP), '%Y-%m-01 00:00:00'), '%Y-%m-%d %H:%M:%S%.f', '%Y-%m-%d') AS TIMESTAMP)) + INTERVAL '0 SECOND') AS "m" FROM "t" WHERE "id" = 1
--
('2024-01-01',)

## a quarter as Tableau truncates to it
select adddate(concat(date_format(`t`.`ts`, '%Y-'), (3*(quarter(`t`.`ts`)-1)+1), '-01 00:00:00'), interval 0 second) as q from t where id = 3
--
SELECT (date_trunc('microsecond', CAST(TO_TIMESTAMP(to_char(CAST("t"."ts" AS TIMESTAMP), '%Y-') || (3 * (date_part('quarter', "t"."ts") - 1) + 1) || '-01 00:00:00', '%Y-%m-%d %H:%M:%S%.f', '%Y-%m-%d') AS TIMESTAMP)) + INTERVAL '0 SECOND') AS "q" FROM "t" WHERE "id" = 3
--
('2025-10-01',)
