-- See tests/planner/workarounds.py.

## a year without nanoseconds is compared with no row
SELECT id FROM m WHERE EXTRACT(YEAR FROM fine) < 9999
--
0
1
2
3
4
5
6
7
8
9
