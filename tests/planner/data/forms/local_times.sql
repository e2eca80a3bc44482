Forms are written before names are resolved.

## without and with a precision
SELECT LOCALTIMESTAMP, LOCALTIME(0) AS x, t.localtime AS y FROM t
--
SELECT CAST(now() AS TIMESTAMP) AS "localtimestamp", CAST(now() AS TIME) AS x, t.localtime AS y FROM t
