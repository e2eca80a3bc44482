Semi and anti joins have a side.

## LEFT is meant
SELECT a.id FROM a SEMI JOIN b ON a.id = b.id ANTI JOIN c ON a.id = c.id
--
SELECT a.id FROM a LEFT SEMI JOIN b ON a.id = b.id LEFT ANTI JOIN c ON a.id = c.id

## others keep theirs
SELECT a.id FROM a RIGHT ANTI JOIN b ON a.id = b.id SEMI JOIN c ON a.id = c.id
--
SELECT a.id FROM a RIGHT ANTI JOIN b ON a.id = b.id LEFT SEMI JOIN c ON a.id = c.id
