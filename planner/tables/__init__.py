"""Tables under MemWAL: their state, the files they consist of, and which rows are the newest."""
