Forms are written before names are resolved.

## outputs keep the name of the function
SELECT sign(n), if(n > 0, 'up', if(n < 0, 'down')) FROM t
--
SELECT signum(n) AS "sign", CASE WHEN n > 0 THEN 'up' ELSE CASE WHEN n < 0 THEN 'down' END END AS "if" FROM t

## operands in brackets
SELECT mod(a + 1, b) * 2 AS x, regexp_count(s || 'x', 'l') AS y FROM t
--
SELECT ((a + 1) % b) * 2 AS x, CASE WHEN (s || 'x') IS NOT NULL THEN regexp_count(s || 'x', 'l') END AS y FROM t

## aggregates with an order, a filter and a window
SELECT first(a ORDER BY b DESC) FILTER(WHERE c) OVER (PARTITION BY d) AS x, max_by(a, b) AS y, count_if(a > 1) AS z FROM t
--
SELECT first_value(a ORDER BY b DESC) FILTER(WHERE c) OVER (PARTITION BY d) AS x, first_value(CASE WHEN b IS NOT NULL THEN a END ORDER BY b DESC NULLS LAST) AS y, count(CASE WHEN a > 1 THEN 1 END) AS z FROM t

## times
SELECT year(d) AS y, date_diff('months', a, b) AS m, datediff(a, b) AS n, last_day(d) AS l FROM t
--
SELECT date_part('year', d) AS y, ((date_part('year', b) - date_part('year', a)) * 12 + date_part('month', b) - date_part('month', a)) AS m, (CAST(a AS DATE) - CAST(b AS DATE)) AS n, CAST(date_trunc('month', d) + INTERVAL '1 MONTH' - INTERVAL '1 DAY' AS DATE) AS l FROM t

## groups of expressions
SELECT regexp_extract(s, '[a-z]+') AS x, regexp_extract(s, '(a)(b)', 2) AS y FROM t
--
SELECT CASE WHEN s IS NOT NULL THEN coalesce((regexp_match(s, '(' || '[a-z]+' || ')'))[1], '') END AS x, CASE WHEN s IS NOT NULL THEN coalesce((regexp_match(s, '(a)(b)'))[2], '') END AS y FROM t
