Tables: dictionaries (d TEXT with a dictionary, s TEXT).

## patterns of rows
SELECT d LIKE s AS a, upper(d) ILIKE s AS b, d NOT LIKE d AS c FROM dictionaries
--
SELECT arrow_cast(d, 'Utf8') LIKE s AS a, arrow_cast(upper(d), 'Utf8') ILIKE s AS b, arrow_cast(d, 'Utf8') NOT LIKE d AS c FROM dictionaries

## other patterns and texts
SELECT d LIKE 'a%' AS a, s LIKE d AS b FROM dictionaries
--
SELECT d LIKE 'a%' AS a, s LIKE d AS b FROM dictionaries

## constants
SELECT arrow_cast(s, 'Dictionary(Int32, Utf8)') LIKE concat(s, '') AS x FROM t
--
SELECT arrow_cast(arrow_cast(s, 'Dictionary(Int32, Utf8)'), 'Utf8') LIKE concat(s, '') AS x FROM t
