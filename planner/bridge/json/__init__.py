"""JSON in texts: functions that read, write and change it, which DataFusion calls for whole batches."""
