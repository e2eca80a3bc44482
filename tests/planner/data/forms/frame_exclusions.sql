Frames that leave out nothing are usual frames.

## the default is left out
SELECT sum(n) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE NO OTHERS) FROM t
--
SELECT sum(n) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t
