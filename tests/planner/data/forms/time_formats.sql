Forms are written before names are resolved.

## numbers, names and texts
SELECT to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.US') AS x, to_char(at, 'FMDD. Month') AS y, to_char(d, 'DY') AS z FROM t
--
SELECT to_char(at, '%Y-%m-%dT%H:%M:%S.%6f') AS x, (to_char(at, '%-d. ') || rpad(to_char(at, '%B'), 9)) AS y, upper(to_char(d, '%a')) AS z FROM t

## times that are read
SELECT to_date('29.02.2024', 'DD.MM.YYYY') AS x, to_timestamp(s, 'YYYY-MM-DD HH24:MI') AS y FROM t
--
SELECT to_date('29.02.2024', '%d.%m.%Y') AS x, to_timestamp(s, '%Y-%m-%d %H:%M') AS y FROM t

## strftime with its arguments in both orders
SELECT strftime(at, '%H:%M:%S.%f') AS x, strftime('%Y', at) AS y FROM t
--
SELECT to_char(at, '%H:%M:%S.%6f') AS x, to_char(at, '%Y') AS y FROM t

## formats of DataFusion, and of rows
SELECT to_char(at, '%Y') AS x, to_char(at, s) AS y FROM t
--
SELECT to_char(at, '%Y') AS x, to_char(at, CASE WHEN s LIKE '%\%%' THEN s ELSE replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(s, 'HH24', '%H'), 'HH12', '%I'), 'MS', '%3f'), 'US', '%6f'), 'YYYY', '%Y'), 'YY', '%y'), 'MM', '%m'), 'MI', '%M'), 'SS', '%S'), 'DD', '%d'), 'Month', '%B'), 'Mon', '%b'), 'Day', '%A'), 'Dy', '%a') END) AS y FROM t
