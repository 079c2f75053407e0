-- :name dequeue
DELETE FROM fencepost.waiter WHERE id = :id

-- :name all_waiters
SELECT * FROM fencepost.waiter_fact ORDER BY since_us, id
