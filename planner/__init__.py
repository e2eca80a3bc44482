"""From SQL text to rows that are true now: sql, access, binding, plans, scans and search, predicates, tables.

Rooms in the order in which a query passes through them:

============  ==========================================================================================
`sql`         read text: tokens, table references, parameters, limits; translate other dialects
`access`      decide what a principal may see; apply row filters and masks
`binding`     give each table reference a private name, expand views, rewrite what DataFusion lacks
`plans`       plan with DataFusion, keep plans, run them, give results and errors a readable form
`scans`       read a table reference: the leaf of a plan, scan or lookup, and its exec nodes
`search`      read the nearest rows or the best texts
`predicates`  decode filters, and prune regions that cannot match
`tables`      newest state, visible rows, and the files and logs they are read from
`bridge`      DataFusion's types, expressions and plans
`system`      tables that describe the catalog
`writes`      statements that change rows or tables
============  ==========================================================================================

`engine` prepares statements of all kinds.
"""
