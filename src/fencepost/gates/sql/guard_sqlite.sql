-- :name unguard_insert
DROP TRIGGER IF EXISTS {guarded_insert};

-- :name unguard_update
DROP TRIGGER IF EXISTS {guarded_update};

-- :name unguard_delete
DROP TRIGGER IF EXISTS {guarded_delete};

-- :name trigger_insert
CREATE TRIGGER {guarded_insert} BEFORE INSERT ON {guarded} BEGIN
    SELECT RAISE(ABORT, 'fencepost: no fence that passes was shown, and this table is behind a gate') WHERE {unshown};
END;

-- :name trigger_update
CREATE TRIGGER {guarded_update} BEFORE UPDATE ON {guarded} BEGIN
    SELECT RAISE(ABORT, 'fencepost: no fence that passes was shown, and this table is behind a gate') WHERE {unshown};
END;

-- :name trigger_delete
CREATE TRIGGER {guarded_delete} BEFORE DELETE ON {guarded} BEGIN
    SELECT RAISE(ABORT, 'fencepost: no fence that passes was shown, and this table is behind a gate') WHERE {unshown};
END;

-- :name unshown
-- A writer shows a pass, and every pass is for the fence that was raised; a trigger never lifts a mark.
NOT EXISTS (SELECT 1 FROM {pass} AS shown WHERE {resource_is_shown})
OR EXISTS (
    SELECT 1 FROM {pass} AS shown
    LEFT JOIN {table} AS mark ON mark.key = shown.key AND mark.fence > 0
    LEFT JOIN {table} AS floor ON floor.key = '*' AND floor.fence > 0
    WHERE shown.fence IS NOT coalesce(mark.fence, floor.fence)
);
