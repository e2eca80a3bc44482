"""Text queries: what they mean, how they score, and where their terms are found.

==================  ===========================================================================
what is asked       `query` (the tree), `query_syntax` and `query_fields` (how users write it)
terms               `tokenizer` (texts to terms), `analysis` and `clauses` (queries to terms),
                    `fuzzy` (what misspelt words stand for), `phrases` (which words follow each other)
scores              `bm25` (the formula and what goes into it), `scoring`, `scored` (sets of documents
                    combined), `candidates` (what is known of matches before they are scored)
documents           `documents` (what is asked of them), `postings` and `growing` (in memory), `text_index`
                    (in a Lance index), `rows` (their numbers), `source_text` (those of one source)
search              `corpus` (statistics of all sources), `admission` (which rows may be found), `impacts`
                    and `fts` (candidates of one source), `global_bm25` and `best` (the best of all)
==================  ===========================================================================
"""
