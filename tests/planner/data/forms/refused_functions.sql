Forms are written before names are resolved.

## functions that are not refused
SELECT mode, "age"(a) AS x, s.format(b) AS y FROM (SELECT 1 AS mode) AS age
--
SELECT mode, "age"(a) AS x, s.format(b) AS y FROM (SELECT 1 AS mode) AS age
