DROP TABLE
    posthaste.users, posthaste.nodes, posthaste.messages, posthaste.ended, posthaste.live, posthaste.lanes,
    posthaste.events, posthaste.postings, posthaste.responses, posthaste.terms, posthaste.kept, posthaste.submissions, posthaste.dead_letters, posthaste.documents,
    posthaste.runs, posthaste.run_entries, posthaste.run_memory, posthaste.run_events,
    posthaste.waiters, posthaste.run_dead_letters, posthaste.answers, posthaste.secrets;
DROP SEQUENCE posthaste.tokens;
DROP FUNCTION posthaste.take_positions;
DROP SEQUENCE posthaste.positions;
