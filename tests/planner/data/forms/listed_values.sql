VALUES behind IN is a list.

## one column
SELECT id FROM t WHERE n IN (VALUES (1), (2))
--
SELECT id FROM t WHERE n IN ((1), (2))
