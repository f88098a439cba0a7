-- Rows that change with each message are vacuumed early, long before a fifth of the table is dead.
-- A fillfactor leaves space on the page for the next version of a row, which then needs no entry in
-- an index.
--
-- Texts that clients choose are bytea: they may hold NUL bytes, and compare byte by byte.
-- Times are Unix milliseconds, positions are log positions, records are of package record.

-- Keys of rows that change with each message end in a number that only grows, and the row is read from
-- the end: what it was before stays on disk while somebody holds a snapshot of the database, and would
-- be read each time.

-- A transaction that writes a user's data locks the user's row first. A user has one row: whoever adds
-- the user to indexed adds it.
CREATE TABLE posthaste.users (
    user_id    text COLLATE "C" NOT NULL,
    position   bigint NOT NULL DEFAULT 0, -- the last one that was taken; the next ones are above it
    partitions integer NOT NULL,          -- into how many it is divided
    PRIMARY KEY (user_id, position)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- A node whose expires_at has passed, by the clock of the database, has lost its leases.
CREATE TABLE posthaste.nodes (
    node       bigint PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    lease      interval NOT NULL, -- how long after its last heartbeat that is
    known      integer NOT NULL, -- version of the schema that its program knows
    drains     boolean NOT NULL DEFAULT false, -- it has no share of the lanes any more
    partitions integer NOT NULL DEFAULT 0 -- into how many it takes users to be divided; 0: it has not said so yet
);

-- In how many partitions each user is divided, and was before: the greatest number is that of now.
CREATE TABLE posthaste.divisions (
    partitions integer PRIMARY KEY
);

-- Which of several databases this is, that divide the partitions of users: one row.
CREATE TABLE posthaste.placement (
    together  text NOT NULL,    -- the same in all of them
    number    integer NOT NULL, -- from 0
    databases integer NOT NULL  -- how many there are
);
CREATE UNIQUE INDEX placement_once ON posthaste.placement ((true));

-- Outcomes of changes in several databases, in the one that decides. What is prepared in another one
-- and has no outcome here is rolled back, which is then its outcome.
CREATE TABLE posthaste.outcomes (
    id        text PRIMARY KEY,
    committed boolean NOT NULL,
    decided   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Jobs that one node at a time does: any node that finds the lease free or expired.
CREATE TABLE posthaste.jobs (
    job        text COLLATE "C" PRIMARY KEY,
    node       bigint NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX jobs_expired ON posthaste.jobs (expires_at);

-- Numbers of nodes, never reused.
CREATE SEQUENCE posthaste.tokens;

-- The part of a message that never changes.
CREATE TABLE posthaste.messages (
    user_id    text COLLATE "C" NOT NULL,
    id         uuid NOT NULL,
    record     bytea NOT NULL,
    -- What a delivery to a workflow takes beside the record: the list of its run, in base64.
    list_bytes bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, id)
);

-- How messages ended; written once.
CREATE TABLE posthaste.ended (
    user_id text COLLATE "C" NOT NULL,
    id      uuid NOT NULL,
    state   smallint NOT NULL,
    retried integer NOT NULL,
    PRIMARY KEY (user_id, id)
);

-- Messages that have not ended, and those that have but keep their slot in a queue.
CREATE TABLE posthaste.live (
    user_id          text COLLATE "C" NOT NULL,
    id               uuid NOT NULL,
    kind             smallint NOT NULL, -- of its lane
    lane             bytea NOT NULL,
    place            bigint NOT NULL,   -- in the lane; the id decides between equals
    due              bigint NOT NULL,
    state            smallint NOT NULL,
    retried          integer NOT NULL,
    begun            boolean NOT NULL,  -- claimed, or holds a slot of its queue
    ended            boolean NOT NULL,  -- but its callbacks have not
    callbacks        integer NOT NULL,  -- that have not ended, in a queue
    cancel_requested boolean NOT NULL,
    lease            bigint NOT NULL,   -- 0: not claimed
    node             bigint NOT NULL,   -- that has the lease, or 0
    flow_key         bytea,
    PRIMARY KEY (user_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX live_waiting ON posthaste.live (user_id, kind, lane, place, id) WHERE NOT begun;
CREATE INDEX live_slots   ON posthaste.live (user_id, lane) WHERE begun AND kind = 113; -- 'q', a queue
CREATE INDEX live_cancelled ON posthaste.live (user_id) WHERE cancel_requested AND lease = 0 AND NOT ended;
CREATE INDEX live_node    ON posthaste.live (node) WHERE node <> 0;
CREATE INDEX live_leased  ON posthaste.live (user_id, flow_key) WHERE lease <> 0 AND flow_key IS NOT NULL;
CREATE INDEX live_flow    ON posthaste.live (user_id, flow_key, due) WHERE lease = 0 AND NOT ended AND flow_key IS NOT NULL;

CREATE TABLE posthaste.lanes (
    user_id   text COLLATE "C" NOT NULL,
    kind      smallint NOT NULL,
    lane      bytea NOT NULL,
    shard     smallint NOT NULL,  -- of the user; says which node serves the lane first
    live      integer NOT NULL,   -- messages that have not ended
    in_flight integer NOT NULL,   -- of them, claimed
    retrying  integer NOT NULL DEFAULT 0, -- of them, waiting for a retry
    ready     bigint,             -- when to look at it; NULL: when something happens
    served    bigint NOT NULL DEFAULT 0,
    front     bigint NOT NULL DEFAULT 0, -- no message waits at a place before it, so nobody reads what has left there
    moved     bigint NOT NULL,    -- the user's position when the row was written
    PRIMARY KEY (user_id, kind, lane, moved)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lanes_ready ON posthaste.lanes (ready) WHERE ready IS NOT NULL;

-- Lanes that wait for the capacity of a flow-control key.
CREATE TABLE posthaste.blocked (
    user_id  text COLLATE "C" NOT NULL,
    flow_key bytea NOT NULL,
    kind     smallint NOT NULL,
    lane     bytea NOT NULL,
    PRIMARY KEY (user_id, flow_key, kind, lane)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- The log: blocks of events that one commit added for a user, keyed by their first position.
-- It has a partition for each day, as have postings and responses.
CREATE TABLE posthaste.events (
    user_id text COLLATE "C" NOT NULL,
    first   bigint NOT NULL,
    block   bytea NOT NULL,
    -- What the commit adds for the user and the day to postings, to counts, and to kept, beside its
    -- first block. It is added later, for many commits at once: see indexed.
    entries bytea,
    number  bigint,
    bytes   bigint,
    PRIMARY KEY (user_id, first)
) PARTITION BY RANGE (first);

-- Up to which block of a user's log the index, the counts and the usage are written.
CREATE TABLE posthaste.indexed (
    user_id text COLLATE "C" PRIMARY KEY,
    first   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- The index of the log: for each term, which is a hashed value of a field, the positions of some
-- events that follow each other, as the first and the gaps between them.
CREATE TABLE posthaste.postings (
    user_id text COLLATE "C" NOT NULL,
    term    bigint NOT NULL,
    first   bigint NOT NULL,
    gaps    bytea NOT NULL,
    PRIMARY KEY (user_id, term, first)
) PARTITION BY RANGE (first);

-- How many events of an hour have a series, a state, a class and a latency: see index.Counts.
CREATE TABLE posthaste.counts (
    user_id text COLLATE "C" NOT NULL,
    hour    bigint NOT NULL, -- when it begins, in Unix milliseconds
    series  bytea NOT NULL,
    what    integer NOT NULL,
    n       bigint NOT NULL,
    PRIMARY KEY (user_id, hour, series, what)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);

-- Responses of destinations, of ERROR events.
CREATE TABLE posthaste.responses (
    user_id text COLLATE "C" NOT NULL,
    first   bigint NOT NULL, -- the position of the event
    record  bytea NOT NULL,
    PRIMARY KEY (user_id, first)
) PARTITION BY RANGE (first);

-- Usage: what is stored of each user, by kind of item.
CREATE TABLE posthaste.kept (
    user_id text COLLATE "C" NOT NULL,
    kind    smallint NOT NULL,
    day     bigint NOT NULL, -- of the log; 0 for the other kinds
    entries bigint NOT NULL,
    bytes   bigint NOT NULL, -- an estimate
    PRIMARY KEY (user_id, kind, day)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Records of users. Kinds, keys and values are those of store.Item.
CREATE TABLE posthaste.records (
    user_id text COLLATE "C" NOT NULL,
    kind    smallint NOT NULL,
    key     bytea NOT NULL,
    value   bytea NOT NULL,
    due     bigint, -- when it is found among those of all users
    PRIMARY KEY (user_id, kind, key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX records_due ON posthaste.records (kind, due, user_id, key) WHERE due IS NOT NULL;

-- What records are found by: hashed values of their fields.
CREATE TABLE posthaste.terms (
    user_id text COLLATE "C" NOT NULL,
    kind    smallint NOT NULL,
    term    bigint NOT NULL,
    at      bigint NOT NULL, -- the position that is the key of the record
    PRIMARY KEY (user_id, kind, term, at)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

