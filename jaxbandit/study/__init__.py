"""Studies: from a study file to stored chunks of answers, rows with intervals, tables and pictures."""
