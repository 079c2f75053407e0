-- :name workplaces
SELECT * FROM fencepost.workplace_fact ORDER BY tenant, project, id
