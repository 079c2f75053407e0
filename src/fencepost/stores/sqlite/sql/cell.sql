-- :name cell
SELECT document, tag FROM cell WHERE tenant = :tenant AND name = :name

-- :name cell_names
SELECT name FROM cell
 WHERE tenant = :tenant AND substr(name, 1, length(:prefix)) = :prefix
 ORDER BY name
 LIMIT :limit

-- :name count_cells
SELECT count(*) FROM cell WHERE tenant = :tenant

-- :name make_cell
INSERT INTO cell (tenant, name, tag, document) VALUES (:tenant, :name, :tag, :document)
ON CONFLICT (tenant, name) DO NOTHING
RETURNING tag

-- :name swap_cell
UPDATE cell SET tag = :tag, document = :document
 WHERE tenant = :tenant AND name = :name AND tag = :expected
RETURNING tag

-- :name drop_cell
DELETE FROM cell WHERE tenant = :tenant AND name = :name AND tag = :expected
RETURNING tag
