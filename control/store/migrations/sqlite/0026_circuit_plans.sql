-- What a run's plan came to: JSON object of its bootstraps, their levels, and log2 of the probability of a wrong bit.
ALTER TABLE circuit_operations ADD COLUMN plan TEXT;
