-- by the database's clock, in microseconds since 1970: when the operation entered the line. 0: a node of the release before wrote
-- the row.
ALTER TABLE waiting_line ADD COLUMN entered_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX waiting_line_entered ON waiting_line (entered_at) WHERE NOT released;

-- The circuits whose clients wait, on all API nodes of a fleet, so that a session's largest number of circuits holds for all nodes
-- together. A row counts while its process lives (nodes.generation, nodes.alive_until). The table is not logged, because the
-- loss of its rows only lets a session run more circuits.
CREATE UNLOGGED TABLE running_circuits (
    op_id TEXT NOT NULL PRIMARY KEY,
    -- as in waiting_line: circuits with the same text here have a common largest number
    counted TEXT NOT NULL,
    -- the API node that asked the workers, and the generation of its process
    node_id TEXT NOT NULL,
    generation BIGINT NOT NULL
);
CREATE INDEX running_circuits_counted ON running_circuits (counted);
