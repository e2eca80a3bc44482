"""Text queries: parsing, scoring, and search.

- `query`: the tree of a query, its syntax, its terms, and the tokenizer.
- `documents`: the documents of one source, in memory or in a Lance index, or of several small ones, joined.
- `bm25`: the formula and its inputs; sets of documents with scores.
- `scoring`: statistics of all sources, candidates and scores.
- `fts`: the best of one source. `joined_fts`: of small sources. `global_bm25`: of all.
"""
