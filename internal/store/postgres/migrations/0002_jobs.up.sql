-- Programs must know version 1.

-- What one node at a time does: whoever finds it free or run out.
CREATE TABLE posthaste.jobs (
    job        text COLLATE "C" PRIMARY KEY,
    node       bigint NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX jobs_expired ON posthaste.jobs (expires_at);

-- Which version of the schema the program of a node knows.
ALTER TABLE posthaste.nodes ADD COLUMN known integer NOT NULL DEFAULT 1;
