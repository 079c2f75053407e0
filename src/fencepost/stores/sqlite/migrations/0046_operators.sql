-- A key of whoever operates the store: it may name another tenant with each request. An older program takes it for a key
-- of its own tenant alone.
ALTER TABLE access_key ADD COLUMN all_tenants INTEGER NOT NULL DEFAULT 0;
