"""Many processes: a job's figures from the records of its ranks."""
