-- Programs must know version 1.

-- What a delivery to a workflow takes beside the record: the list of its run, in base64.
ALTER TABLE posthaste.messages ADD COLUMN list_bytes bigint NOT NULL DEFAULT 0;
