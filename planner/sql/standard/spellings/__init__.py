"""What DataFusion spells in another way, or lacks: functions, casts, conditions and joins."""
