"""Search functions of the SQL surface, and ORDER BY distance, from the statement to a tree of exec nodes.

==========================================  =================================================================
`call`, `arguments`, `text_arguments`       a call as it stands in a statement, and what its arguments mean
`subquery`                                  queries that give the vectors to search for
`search`, `leaf`, `scan`                    what is searched for, and the leaf that DataFusion reads it from
`direct`                                    statements that are but a search, planned once
`distance_functions`, `vector_text`,        distances in SQL: functions, pgvector's operators, vectors written
`distance_operators`                        as text
`nearest`, `nearest_leaf`                   ORDER BY distance LIMIT k, planned as a search
`plan_reading`, `telling`, `residual`,      what a plan says beyond the conjuncts that DataFusion hands over
`value_subqueries`
`conjuncts`, `row_conditions`, `admitted`   which conditions apply before ranking, and which rows they admit
`branches`, `vector`, `text`, `hybrid`      one tree for vectors, one for texts, and both fused
`sources`, `coverage`, `own_index`          what is searched: by an index where one has the rows
`catch_up`, `same_rows`, `equal_values`     merged generations that answer for rows that an index lacks
`newer_rows`                                what supersedes a row, asked by key
`source_texts`                              the texts of what is searched
==========================================  =================================================================
"""
