ALTER TABLE posthaste.messages DROP COLUMN list_bytes;
