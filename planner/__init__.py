"""From SQL text to rows that are true now.

A statement passes through these modules, in this order:

==========================================  =================================================================
`dialects`, `dialect_*`                     the statement in DataFusion's SQL, where it speaks another
`fetch_clause`, `recursive_columns`,        what DataFusion does not read, leaves out or gets wrong, put in
`quantified`, `truth_position`,             other words or refused, in texts and in plans; statements that
`misread_clauses`, `separate_lists`,        are no queries
`misplanned_joins`, `dropped_keys`,
`emptied_aggregates`, `statement_kinds`
`settings`, `shortcuts`                     what a session may choose, and which shortcuts it may switch off
`tokens`, `references`, `views`, `binding`  every table reference gets a private name, views are expanded
`numbering`                                 parameters, and which value each of them gets
`chains`, `literal_sizes`, `like_escape`    plans too deep, values too large; LIKE with any escape character
`statement`, `parameters`, `placeholders`,  the bound statement, its parameters, their types and values, and
`typed_values`, `key_query`                 whether it is a lookup
`substrait`                                 a plan in place of a statement, read through statements
`access`, `visible_catalog`, `secured`      what the principal may see: the only names, the only tables
`engine`, `query_planner`, `plan_cache`,    preparing and running; DataFusion plans over one leaf a reference
`checked_query`, `prepared_query`,
`frames`, `running`, `control`
`leaf`, `query`                             the leaf as DataFusion sees it, and all scans of one run
`expressions`, `predicates`, `row_filter`,  the conjuncts that DataFusion hands to a leaf, understood, and
`ternary`                                   evaluated in SQL's three values
`table_policy`, `row_expressions`,          row filters and masks, planned and evaluated; which conjuncts of a
`conditions`                                statement may meet rows as they are stored
`admissible`, `region_fields`, `pruning`    which regions these conjuncts can't be true in
`catalog`, `table`, `snapshot`              tables under a root, and one consistent state of each
`newest_base`, `known_state`, `two_ids`     its newest version, what is kept while it is the same table, and
                                            regions that two kinds of writers gave an id each
`run_tables`, `table_anew`,                 what stands in for kept state, masks and columns where a session
`stored_columns`, `stored_visibility`       does without: everything is read and computed anew
`as_of`, `past_tables`, `past_table`        tables as they were: by version, tag and time
`base_table`,                               base table and flushed generations of a snapshot, their columns
`fresh_rows`, `dataset_indexes`             matched by field id, and their indexes
`log_reading`, `region_log`, `tail`         unflushed rows, which grow entry by entry
`key_column`, `key_probe`, `key_history`,   which rows newer ones supersede, kept as masks: of files, and of
`layer_places`, `visibility`, `masks`,      tails that grow
`tail_masks`
`balance`, `parts`                          who reads what of a scan, and scans in parts for several readers
`scan`, `lookup`, `column_cache`,           the two shapes of trees of exec nodes, columns kept decoded, and
`key_places`, `byte_cache`                  where the rows of looked-up keys lie
`search`                                    search functions and ORDER BY distance: a catalogue of their own
`system_tables`, `system_leaf`,             the schema `system`: its tables, their leaves, and those that
`catalog_listing`, `catalog_tables`,        describe the catalog
`version_table`, `index_table`
`writes`, `dml`, `ddl`                      statements that write rows, and those that define tables:
                                            catalogues of their own
`direct_shape`, `direct`, `results`,        plain scans and counts, result schemas and errors, EXPLAIN
`explain`
==========================================  =================================================================
"""
