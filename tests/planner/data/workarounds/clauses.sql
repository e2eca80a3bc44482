-- See tests/planner/workarounds.py.

## FETCH FIRST is not supported
SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS ONLY
--
0
1

## LIKE knows no other escape than the backslash
SELECT 'a%' LIKE 'a!%' ESCAPE '!' AS x
--
True
