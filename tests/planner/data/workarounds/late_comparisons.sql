-- See tests/planner/workarounds.py.

## a text of the year 9999 overflows beside a column
SELECT id FROM late WHERE moment < '9999-12-31'
--
1
2

## a date of the year 9999 overflows beside a column
SELECT id FROM late WHERE moment = DATE '9999-12-31'
--
3
