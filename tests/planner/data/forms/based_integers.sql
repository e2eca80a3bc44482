Forms are written before names are resolved.

## integers and bytes
SELECT 0xff, 0b101 + a AS x, X'1F' AS y FROM t WHERE flags = 0x1F
--
SELECT 255 AS "0xff", 5 + a AS x, x'1F' AS y FROM t WHERE flags = 31
