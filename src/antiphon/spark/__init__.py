"""The pipeline: Spark jobs that turn traces into knowledge, and Antiphon as a source and a sink of Spark."""
