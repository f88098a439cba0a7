DROP TABLE posthaste.jobs;
ALTER TABLE posthaste.nodes DROP COLUMN known;
